// SPDX-License-Identifier: Apache-2.0
#include "bench/tune_state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/fd.h"
#include "bench/json.h"

namespace nccltune::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKind = "nccl-tune tune: state 1";
constexpr off_t kMostBytes = off_t{64} << 20;

Error unusable(const std::string& file, std::string what) {
  return {file, std::move(what), "", "remove it to begin anew, or name another with --state"};
}

std::optional<std::pair<Setting, Answer>> trial_of(const Json& item) {
  Setting setting;
  Answer answer;
  for (const Json& choice : item.at("setting")) setting.push_back(choice.get<uint8_t>());
  for (const Json& time : item.at("times")) {
    answer.times.push_back(time.get<double>());
    if (!(answer.times.back() > 0)) return std::nullopt;
  }
  answer.fault = item.at("fault").get<std::string>();
  answer.wrong_data = item.at("wrong_data").get<bool>();
  answer.seconds = item.at("seconds").get<double>();
  if (!(answer.seconds >= 0)) return std::nullopt;
  return std::pair(std::move(setting), std::move(answer));
}

}  // namespace

std::string journal_text(const Identity& identity, const Journal& journal) {
  Json document = {{"kind", kKind}, {"identity", Json::object()}, {"trials", Json::array()}};
  for (const auto& [name, text] : identity) document["identity"][name] = text;
  for (const auto& [setting, answer] : journal.trials)
    document["trials"].push_back({{"setting", setting},
                                  {"times", answer.times},
                                  {"fault", answer.fault},
                                  {"wrong_data", answer.wrong_data},
                                  {"seconds", answer.seconds}});
  return dump(document) + "\n";
}

Result<Journal> parse_journal(const std::string& text, const std::string& file, const Identity& identity) {
  try {
    const Json document = Json::parse(text);
    if (document.at("kind") != kKind) return unusable(file, "not a state file of this version");
    for (const auto& [name, ours] : identity)
      if (document.at("identity").value(name, std::string()) != ours)
        return unusable(file, "is of another search: its " + name + " was '" +
                                  document.at("identity").value(name, std::string()) + "', not '" + ours + "'");
    Journal journal;
    for (const Json& item : document.at("trials")) {
      auto trial = trial_of(item);
      if (!trial) return unusable(file, "not a state file: a time is below 0");
      journal.trials.push_back(std::move(*trial));
    }
    return journal;
  } catch (const Json::exception&) {
    return unusable(file, "not a state file");
  }
}

Result<std::optional<Journal>> read_journal(const std::string& file, const Identity& identity) {
  const Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0 && errno == ENOENT) return std::optional<Journal>();
  if (fd.get() < 0) return Error{file, "cannot be opened", std::strerror(errno), ""};
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > kMostBytes)
    return unusable(file, "not a state file");
  if (info.st_uid != geteuid()) return unusable(file, "belongs to another user");
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t at = 0;
  for (ssize_t n = 0; at < text.size() && (n = read(fd.get(), text.data() + at, text.size() - at)) > 0;)
    at += static_cast<size_t>(n);
  text.resize(at);
  auto journal = parse_journal(text, file, identity);
  if (!journal) return journal.error();
  return std::optional(std::move(*journal));
}

std::optional<Error> write_journal(const std::string& file, const Identity& identity, const Journal& journal) {
  const std::string fresh = file + ".new";
  unlink(fresh.c_str());
  const auto failed = [&](const char* what) { return Error{fresh, what, std::strerror(errno), ""}; };
  const Fd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (fd.get() < 0) return failed("cannot be made");
  if (!write_all(fd.get(), journal_text(identity, journal)) || fsync(fd.get()) != 0) return failed("cannot be written");
  if (rename(fresh.c_str(), file.c_str()) != 0) return failed("cannot take its place");
  return std::nullopt;
}

std::optional<Error> replay(const Journal& journal, const std::string& file, Search& search) {
  for (const auto& [setting, answer] : journal.trials) {
    if (search.next() != setting) return unusable(file, "does not fit this search");
    search.tell(answer);
  }
  return std::nullopt;
}

}  // namespace nccltune::bench
