#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files as C++ strings: embed_page.sh NAME=FILE... prints a source file.
set -eu
echo '// Made by embed_page.sh; its sources are beside it and in the chart library.'
echo 'namespace nccltune::cli {'
for item; do
  printf 'extern const char %s[];\nconst char %s[] = R"~~~~(' "${item%%=*}" "${item%%=*}"
  cat "${item#*=}"
  echo ')~~~~";'
done
echo '}  // namespace nccltune::cli'
