// SPDX-License-Identifier: Apache-2.0
#include "cli/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "bench/collectives.h"
#include "bench/text.h"
#include "bench/tune.h"
#include "cli/output.h"
#include "cli/plan_json.h"
#include "cli/table.h"

namespace nccltune::cli {
namespace {

using bench::human_size;

std::string interval_text(const bench::Gain& gain) {
  return fmt::format("{:.3f} times today's speed, 95 % interval {:.3f} to {:.3f}", gain.speed, gain.interval.first,
                     gain.interval.second);
}

std::string time_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6)
         : seconds < 1  ? fmt::format("{:.3f} ms", seconds * 1e3)
                        : fmt::format("{:.3f} s", seconds);
}

std::string conclusion(const TuneStory& story, const bench::Space& space, const bench::Search& search,
                       const std::optional<bench::Gain>& gain) {
  const auto& decision = search.decision();
  if (!decision || !gain) {
    const std::string reason =
        search.end_reason().empty() ? "the search did not come to launches that decide" : search.end_reason();
    return "Nothing is better than today's settings beyond the noise: " + reason + ".";
  }
  const std::string found = describe(space, decision->setting);
  const std::string figures =
      interval_text(*gain) + fmt::format(", in {} fresh launches of each side", decision->best.size());
  if (gain->better) return found + " is faster: " + figures + ".";
  if (gain->told && gain->speed > 1)
    return fmt::format("{} is faster by less than the {:.3g} % that are asked for: {}.", found, story.min_gain * 100,
                       figures);
  return "Nothing is better than today's settings beyond the noise; the likeliest, " + found + ", has " + figures + ".";
}

}  // namespace

std::string works_text(const std::vector<bench::Work>& works) {
  std::string text;
  for (const bench::Work& work : works) {
    text += (text.empty() ? "" : "; ") + std::string(bench::info_of(work.collective).name) + ", " +
            human_size(work.sizes.front());
    if (work.sizes.size() > 1)
      text += fmt::format(" to {} in {} sizes", human_size(work.sizes.back()), work.sizes.size());
  }
  return text;
}

std::string why_text(const TuneStory& story, const bench::Search& search, const bench::Gain& gain) {
  return fmt::format("measured {}: {} ({} launches of each side; {}; {}; over {}; nccl-tune {}; {})", story.date,
                     interval_text(gain), search.decision()->best.size(), works_text(story.works), story.machine,
                     story.today, story.version, story.command);
}

std::vector<std::string> size_lines(const TuneStory& story, const bench::Search::Decision& decision) {
  std::vector<std::string> lines{
      fmt::format("{:<16} {:>10} {:>12} {:>12} {:>7}  {}", "collective", "size", "today", "found", "speed", "verdict")};
  const std::vector<bench::EntryGain> entries = judge_entries(decision);
  size_t at = 0;
  for (const bench::Work& work : story.works)
    for (const uint64_t size : work.sizes) {
      if (at == entries.size()) return lines;
      const bench::EntryGain& entry = entries[at++];
      lines.push_back(fmt::format("{:<16} {:>10} {:>12} {:>12} {:>7.3f}  {}", bench::info_of(work.collective).name,
                                  human_size(size), time_text(entry.today), time_text(entry.best), entry.gain.speed,
                                  !entry.gain.told    ? "no difference"
                                  : entry.gain.better ? "faster"
                                                      : "SLOWER"));
    }
  return lines;
}

std::vector<std::string> risk_lines(const bench::Space& space, const bench::Setting& setting) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < setting.size(); ++i)
    if (setting[i] > 0 && !space.knobs[i].risk.empty())
      lines.push_back(space.knobs[i].name + ": " + space.knobs[i].risk);
  return lines;
}

std::string report_text(const TuneStory& story, const bench::Space& space, const bench::Search& search,
                        const std::optional<bench::Gain>& gain, bool verbose) {
  std::string out =
      fmt::format("work      {}\nmachine   {}\ntoday     {}\n", works_text(story.works), story.machine, story.today);
  out += fmt::format("space     {}: {} variables, {:.0f} settings; {} more are not for this step{}\n", story.space_file,
                     space.knobs.size(), space.grid_size(), story.left_out.size(),
                     verbose || story.left_out.empty() ? "" : " (--verbose)");
  out += fmt::format(
      "cost      {} trials of {} settings{}, {} of {}; trying each of the {:.0f} settings once takes {}\n\n",
      search.trials(), search.settings_tried(), search.exhaustive() ? ", the whole space" : "",
      bench::minutes(search.spent()), bench::minutes(story.budget), space.grid_size(),
      bench::minutes(search.trials() > 0 ? space.grid_size() * search.spent() / search.trials() : 0));
  out += paragraph(printable(conclusion(story, space, search, gain)), 0, 0);
  if (search.decision() && gain) {
    out += "\n";
    for (const std::string& line : size_lines(story, *search.decision())) out += "  " + line + "\n";
    for (const std::string& line : risk_lines(space, search.decision()->setting))
      out += paragraph("Mind: " + line, 2, 8);
  }
  std::set<std::string> told;
  for (const auto& failed : search.failed()) {
    std::string line = describe(space, failed.setting) + ": " + failed.fault;
    if (told.insert(line).second)
      out += paragraph(printable((failed.wrong_data ? "WRONG DATA: " : "failed: ") + line), 2, 4);
  }
  if (const auto untried = search.untried(); !untried.empty() && search.trials() > 0)
    out += paragraph("not tried for want of time: " + join(untried, ", "), 2, 4);
  if (verbose)
    for (const auto& [name, why] : story.left_out)
      out += paragraph(printable("not for this step: " + name + " " + why), 2, 4);
  return out;
}

std::string report_json(const TuneStory& story, const bench::Space& space, const bench::Search& search,
                        const std::optional<bench::Gain>& gain, const bench::Journal& journal) {
  const auto settings = [&](const bench::Setting& setting) {
    Json object = Json::object();
    for (const auto& [name, value] : changes_of(space, setting)) object[name] = *value;
    return object;
  };
  Json entries = Json::array(), trials = Json::array(), left_out = Json::array();
  for (const bench::Work& work : story.works)
    for (const uint64_t size : work.sizes)
      entries.push_back({{"collective", bench::info_of(work.collective).name}, {"bytes", size}});
  for (const auto& [setting, answer] : journal.trials)
    trials.push_back({{"env", settings(setting)},
                      {"times", answer.times},
                      {"fault", answer.fault},
                      {"wrong_data", answer.wrong_data},
                      {"seconds", answer.seconds}});
  for (const auto& [name, why] : story.left_out) left_out.push_back({{"name", name}, {"why", why}});
  Json result = nullptr;
  if (gain && search.decision())
    result = {{"env", settings(search.decision()->setting)},
              {"speed", gain->speed},
              {"interval", {gain->interval.first, gain->interval.second}},
              {"launches", search.decision()->best.size()},
              {"better", gain->better}};
  return text_of(
      Json{{"kind", "nccl-tune tune"},
           {"version", story.version},
           {"command", story.command},
           {"date", story.date},
           {"machine", story.machine},
           {"today", story.today},
           {"space", {{"file", story.space_file}, {"variables", space.knobs.size()}, {"settings", space.grid_size()}}},
           {"left_out", std::move(left_out)},
           {"budget", story.budget},
           {"spent", search.spent()},
           {"entries", std::move(entries)},
           {"result", std::move(result)},
           {"reason", search.end_reason()},
           {"trials", std::move(trials)}});
}

}  // namespace nccltune::cli
