// SPDX-License-Identifier: Apache-2.0
// Aligned columns for people. Cells wrap at blanks and behind commas; the last column takes what is left of the width.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nccltune::cli {

// Columns that text is laid out for, whatever the terminal, so that the output is the same everywhere.
inline constexpr size_t kWidth = 100;

enum class Tone { plain, title, good, faint, warn };

// Whether tones are shown: on a terminal, and not when NO_COLOR is set (no-color.org) or TERM is "dumb".
struct Style {
  bool colour = false;

  std::string paint(Tone tone, const std::string& text) const;
};

Style style_of_stdout();

// The title of a section: a blank line before it.
std::string heading(const Style& style, const std::string& text);

struct Cell {
  Cell(std::string text, Tone tone = Tone::plain) : text(std::move(text)), tone(tone) {}
  Cell(const char* text, Tone tone = Tone::plain) : text(text), tone(tone) {}

  std::string text;
  Tone tone;
};

struct Column {
  Column(const char* title, size_t most = 0) : title(title), most(most) {}
  Column(std::string title, size_t most = 0) : title(std::move(title)), most(most) {}

  std::string title;
  size_t most;  // width at which its cells wrap; 0: they do not
};

class Table {
 public:
  explicit Table(std::vector<Column> columns, size_t indent = 2) : columns_(std::move(columns)), indent_(indent) {}

  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }

  // The title row and the rows; an empty cell reads "-". A last column that needs more than what is left, and has
  // less than 24 columns, starts on a line of its own.
  std::string text(const Style& style) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  size_t indent_;
};

// The text in lines of at most `width` columns, broken at blanks; a longer word breaks behind a comma or stays whole.
std::vector<std::string> wrap(const std::string& text, size_t width);

// Columns that UTF-8 text takes on a terminal, one a code point.
size_t columns_of(const std::string& text);

// The text wrapped at kWidth: the first line behind `indent` blanks, the others behind `hanging`.
std::string paragraph(const std::string& text, size_t indent, size_t hanging);

}  // namespace nccltune::cli
