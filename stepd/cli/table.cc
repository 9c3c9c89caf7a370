// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cli/output.h"

namespace nccltune::cli {

namespace {

constexpr size_t kGap = 2;         // blanks between columns
constexpr size_t kNarrowest = 24;  // of a last column beside the others

const char* escape_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::title:
      return "\033[1m";
    case Tone::good:
      return "\033[32m";
    case Tone::faint:
      return "\033[2m";
    case Tone::warn:
      return "\033[33m";
  }
  return "";
}

// A cell in lines.
struct Block {
  std::vector<std::string> lines;
  Tone tone = Tone::plain;
};
using Row = std::vector<Block>;

// Where a word that is too long may break: behind the last comma that fits; the whole word when there is none.
size_t comma_break(const std::string& word, size_t width) {
  size_t comma = word.rfind(',', width - 1);
  return comma == std::string::npos || comma + 1 >= word.size() ? word.size() : comma + 1;
}

Row title_row(const std::vector<Column>& columns) {
  Row row;
  for (const Column& column : columns) row.push_back({{printable(column.title)}, Tone::title});
  return row;
}

// Every cell but the last in its lines; the last one waits until its width is known.
Row wrapped_row(const std::vector<Cell>& cells, const std::vector<Column>& columns) {
  Row row;
  for (size_t i = 0; i < columns.size(); ++i) {
    std::string text = i < cells.size() && !cells[i].text.empty() ? printable(cells[i].text) : "-";
    Tone tone = i < cells.size() ? cells[i].tone : Tone::plain;
    bool whole = columns[i].most == 0 || i + 1 == columns.size();
    row.push_back({whole ? std::vector{text} : wrap(text, columns[i].most), tone});
  }
  return row;
}

std::string lay_out(const Style& style, const Row& row, const std::vector<size_t>& widths, size_t indent) {
  size_t height = 0;
  for (const Block& block : row) height = std::max(height, block.lines.size());
  std::string out;
  for (size_t i = 0; i < height; ++i) {
    std::string line;
    size_t at = 0, target = indent;  // columns written, and where the next cell starts
    for (size_t c = 0; c < row.size(); ++c) {
      if (i < row[c].lines.size() && !row[c].lines[i].empty()) {
        line += std::string(target - at, ' ') + style.paint(row[c].tone, row[c].lines[i]);
        at = target + columns_of(row[c].lines[i]);
      }
      target += widths[c] + kGap;
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string Style::paint(Tone tone, const std::string& text) const {
  if (!colour || tone == Tone::plain || text.empty()) return text;
  return escape_of(tone) + text + "\033[0m";
}

Style style_of_stdout() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  bool dumb = !term || std::strcmp(term, "dumb") == 0;
  return Style{.colour = isatty(STDOUT_FILENO) && !dumb && !(no_color && *no_color)};
}

std::string heading(const Style& style, const std::string& text) {
  return "\n" + style.paint(Tone::title, text) + "\n";
}

size_t columns_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::vector<std::string> wrap(const std::string& text, size_t width) {
  width = std::max<size_t>(width, 1);
  std::vector<std::string> lines;
  std::string line;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, end - at);
    at = end + 1;
    while (!word.empty()) {
      size_t used = columns_of(line), gap = line.empty() ? 0 : 1;
      if (used + gap + columns_of(word) <= width) {
        line += std::string(gap, ' ') + word;
        word.clear();
      } else if (!line.empty()) {
        lines.push_back(std::move(line));
        line.clear();
      } else {
        size_t cut = comma_break(word, width);
        lines.push_back(word.substr(0, cut));
        word.erase(0, cut);
      }
    }
  }
  if (!line.empty() || lines.empty()) lines.push_back(line);
  return lines;
}

std::string paragraph(const std::string& text, size_t indent, size_t hanging) {
  std::string out;
  size_t lead = indent;
  for (const std::string& line : wrap(text, kWidth - hanging)) {
    out += std::string(lead, ' ') + line + "\n";
    lead = hanging;
  }
  return out;
}

std::string Table::text(const Style& style) const {
  if (columns_.empty()) return "";
  const size_t last = columns_.size() - 1;
  std::vector<Row> rows;
  rows.push_back(title_row(columns_));
  for (const auto& cells : rows_) rows.push_back(wrapped_row(cells, columns_));

  std::vector<size_t> widths(columns_.size());
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      for (const std::string& line : row[i].lines) widths[i] = std::max(widths[i], columns_of(line));
  size_t left = indent_;
  for (size_t i = 0; i < last; ++i) left += widths[i] + kGap;
  // Whether the last column has no room beside the others.
  const bool below = left + std::min(kNarrowest, widths[last]) > kWidth;
  if (below) left = indent_ + 4;

  std::string out;
  for (Row& row : rows) {
    row.back().lines = wrap(row.back().lines.front(), kWidth - left);
    if (below) {
      Block own = std::move(row.back());
      row.pop_back();
      out += lay_out(style, row, widths, indent_);
      out += lay_out(style, {own}, {0}, left);
    } else {
      out += lay_out(style, row, widths, indent_);
    }
  }
  return out;
}

}  // namespace nccltune::cli
