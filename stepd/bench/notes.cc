// SPDX-License-Identifier: Apache-2.0
#include "bench/notes.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <map>
#include <set>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr uint64_t kSmall = 16 << 10;    // bytes
constexpr uint64_t kLarge = 1ull << 30;  // sizes from which a link's rate can be read (NVIDIA/nccl-tests#212)
constexpr size_t kMostLines = 64;
constexpr size_t kMostGroups = 32;

std::string cuda_version(int32_t code) { return print("%d.%d", code / 1000, code % 1000 / 10); }

std::string times_line(const RunInfo& info, const Row& row, const char* placement, const Summary& s) {
  std::string text = print("%10s %8s %6s %3s %6zu %9.2f %9.2f", human_size(row.bytes).c_str(), row.type.c_str(),
                           row.op.c_str(), placement, s.count, s.min * 1e6, s.p50 * 1e6);
  text += s.median_interval ? print(" %9.2f %9.2f", s.median_interval->first * 1e6, s.median_interval->second * 1e6)
                            : print(" %9s %9s", "-", "-");
  text += print(" %9.2f", s.p95 * 1e6) + (s.p99 ? print(" %9.2f", *s.p99 * 1e6) : print(" %9s", "-"));
  text += print(" %9.2f %6.1f%%", s.max * 1e6, s.drift * 100);
  text += info.ranks > 1 ? print(" %9.2f", s.skew * 1e6) : print(" %9s", "-");
  text += s.late_rank < 0 ? print(" %5s", "-") : print(" %5d", s.late_rank);
  if (s.drifts()) text += " drifts";
  if (s.settling) text += print(" settled after %zu", s.settling);
  return text;
}

void add_percentiles(const RunInfo& info, const Row& row, const char* placement, const Half& half,
                     std::vector<std::string>& lines) {
  if (info.options.percentiles.empty() || half.samples.empty()) return;
  std::vector<double> sorted;
  for (const protocol::Sample& sample : half.samples) sorted.push_back(sample.max_seconds);
  std::sort(sorted.begin(), sorted.end());
  std::string text =
      print("%10s %8s %6s %3s", human_size(row.bytes).c_str(), row.type.c_str(), row.op.c_str(), placement);
  for (const double p : info.options.percentiles) text += print("  p%g %.2f us", p, percentile(sorted, p / 100) * 1e6);
  lines.push_back(text);
}

// The late rank of the whole run: the one of most rows.
std::vector<std::string> late_rank_lines(const RunInfo& info, const std::vector<Row>& rows) {
  struct Late {
    size_t times = 0;
    double share = 0;  // sum
    std::vector<double> waits;
  };
  std::map<int, Late> late;
  size_t counted = 0;
  for (const Row& row : rows)
    for (const Half* half : {&row.out, &row.in}) {
      const Summary& s = half->summary;
      counted += s.count > 0;
      if (s.late_rank < 0) continue;
      Late& of_rank = late[s.late_rank];
      ++of_rank.times;
      of_rank.share += s.late_share;
      of_rank.waits.push_back(s.late_wait);
    }
  for (const auto& [rank, of_rank] : late)
    if (2 * of_rank.times > counted)
      return {
          print("%s comes late in %.0f %% of the iterations of %zu of %zu measurements; the others wait for it, "
                "%.0f us in the median",
                name_rank(info, rank).c_str(), 100 * of_rank.share / static_cast<double>(of_rank.times), of_rank.times,
                counted, median(of_rank.waits) * 1e6)};
  return {};
}

}  // namespace

std::string name_rank(const RunInfo& info, int rank) {
  if (rank < 0 || rank >= static_cast<int>(info.devices.size())) return print("rank %d", rank);
  const DeviceLine& device = info.devices[rank];
  std::string text = print("rank %d (%s", rank, device.host.c_str());
  if (!device.bdf.empty()) text += ", GPU " + device.bdf;
  return text + ")";
}

double best_busbw(const std::vector<Row>& rows) {
  double best = 0;
  for (const Row& row : rows) best = std::max({best, row.out.busbw, row.in.busbw});
  return best;
}

std::vector<std::string> describe_setting(const RunInfo& info, const std::string& worker_note) {
  std::vector<std::string> lines;
  std::string text = print("nccl-tune %s: %d rank%s, %d node%s, %s, %s", info.version.c_str(), info.ranks,
                           info.ranks == 1 ? "" : "s", info.nodes, info.nodes == 1 ? "" : "s",
                           info.devices.empty() ? "" : info.devices.front().library.c_str(), info.world.c_str());
  if (!info.devices.empty() && info.devices.front().cuda_driver)
    text += print(", CUDA %s, driver for %s", cuda_version(info.devices.front().cuda_runtime).c_str(),
                  cuda_version(info.devices.front().cuda_driver).c_str());
  lines.push_back(text);
  if (!worker_note.empty()) lines.push_back(worker_note);
  if (!info.groups.empty())
    lines.push_back(
        print("split in %zu groups (%s) that run at the same time: the table has the time over all of them, and "
              "busbw as of %d ranks, the size of the first",
              info.groups.size(), info.options.split ? info.options.split->text.c_str() : "", info.group_ranks));
  else if (info.options.split)
    lines.push_back(print("'%s' puts all ranks into one group", info.options.split->text.c_str()));
  if (info.group_ranks == 1)
    lines.emplace_back(
        "1 rank: nothing leaves the device, so busbw is 0 by its definition; start more ranks to measure links");
  return lines;
}

std::vector<std::string> describe_rates(const RunInfo& info, const std::vector<Row>& rows) {
  if (rows.empty() || info.group_ranks == 1) return {};
  const Row* best = &rows.front();
  double large = 0;
  int count = 0;
  for (const Row& row : rows) {
    if (std::max(row.out.busbw, row.in.busbw) > std::max(best->out.busbw, best->in.busbw)) best = &row;
    if (row.bytes < kLarge) continue;
    for (const Half* half : {&row.out, &row.in})
      if (half->ran) large += half->busbw, ++count;
  }
  std::vector<std::string> lines = {print("peak busbw %.2f GB/s, with %s", std::max(best->out.busbw, best->in.busbw),
                                          human_size(best->bytes).c_str())};
  if (count) lines.front() += print("; mean from 1 GiB up %.2f GB/s", large / count);
  lines.front() += "; the mean above is over all sizes, small ones too";
  return lines;
}

std::vector<std::string> describe_small(const RunInfo& info, const std::vector<Row>& rows) {
  if (std::none_of(rows.begin(), rows.end(), [](const Row& row) { return row.bytes <= kSmall; })) return {};
  std::string text = print("to %s the time is that of launching an operation and of its way, not of the data",
                           human_size(kSmall).c_str());
  if (info.options.graph > 0)
    text += "; with -G a row's operations are launched together, and one that is launched alone takes longer";
  else if (info.options.aggregate > 1)
    text += print("; with -m %d operations are launched together, and one that is launched alone takes longer",
                  info.options.aggregate);
  return {text};
}

std::vector<std::string> describe_times(const RunInfo& info, const std::vector<Row>& rows) {
  std::vector<std::string> lines, more;
  for (const Row& row : rows)
    for (const auto& [name, half] : {std::pair("out", &row.out), std::pair("in", &row.in)}) {
      if (half->summary.count == 0) continue;
      if (lines.empty()) {
        lines.emplace_back(
            "time of one iteration, the maximum over ranks, in us (device clock; n: iterations; 95 %: interval of the "
            "median;");
        lines.emplace_back(
            "skew: the longest wait for the last to arrive, median; late: the rank that comes late more often than "
            "others)");
        lines.push_back(print("%10s %8s %6s %3s %6s %9s %9s %9s %9s %9s %9s %9s %7s %9s %5s", "size", "type", "redop",
                              "", "n", "min", "p50", "95% from", "to", "p95", "p99", "max", "drift", "skew", "late"));
      }
      if (lines.size() < kMostLines + 3) lines.push_back(times_line(info, row, name, half->summary));
      add_percentiles(info, row, name, *half, more);
    }
  if (lines.size() == kMostLines + 3) lines.emplace_back("more rows are in the JSON (--json)");
  lines.insert(lines.end(), more.begin(), more.end());
  for (std::string& line : late_rank_lines(info, rows)) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> describe_unmet(const RunInfo& info, const std::vector<Row>& rows) {
  if (!info.options.ci) return {};
  std::vector<std::string> unmet;
  for (const Row& row : rows)
    for (const auto& [name, half] : {std::pair("out", &row.out), std::pair("in", &row.in)}) {
      if (half->summary.count == 0) continue;
      const auto width = half->summary.relative_half_width();
      const bool wide = !width || *width > *info.options.ci;
      if (!wide && !half->summary.drifts()) continue;
      std::string text = print("%s %s %s", human_size(row.bytes).c_str(), row.type.c_str(), name);
      text += width ? print(" %.1f %%", *width * 100) : std::string(" unknown");
      if (half->summary.drifts()) text += print(", drifts by %+.1f %%", half->summary.drift * 100);
      unmet.push_back(text);
    }
  if (unmet.empty()) return {};
  const size_t most = std::min<size_t>(unmet.size(), 8);
  std::string text =
      print("--ci %g%%: not reached in %zu of %zu measurements within its bounds (half width of the interval): ",
            *info.options.ci * 100, unmet.size(), 2 * rows.size()) +
      join({unmet.begin(), unmet.begin() + static_cast<std::ptrdiff_t>(most)}, "; ");
  if (unmet.size() > most) text += print("; and %zu more", unmet.size() - most);
  return {text};
}

std::vector<std::string> describe_limit(const RunInfo& info, const std::vector<Row>& rows, double hca_gbs) {
  if (info.nodes < 2 || !(hca_gbs > 0) || !info.groups.empty() || rows.empty() || info.ranks % info.nodes) return {};
  const double n = info.ranks, nodes = info.nodes, each = n / nodes;
  double limit = 0;
  // The least that has to pass a node's HCAs one way, against which busbw is measured (NVIDIA/nccl-tests#160, #267).
  switch (info.options.collective) {
    case protocol::Collective::all_reduce:  // 2(nodes-1)/nodes of the size, where busbw counts 2(n-1)/n
    case protocol::Collective::all_gather:
    case protocol::Collective::reduce_scatter:
      limit = hca_gbs * (n - 1) / n * nodes / (nodes - 1);
      break;
    case protocol::Collective::alltoall:  // each of a node's ranks sends (n-each)/n of the size to other nodes
      limit = hca_gbs / each * (n - 1) / (n - each);
      break;
    case protocol::Collective::broadcast:
    case protocol::Collective::reduce:
      limit = hca_gbs;
      break;
    default:
      return {};
  }
  const double best = best_busbw(rows);
  return {print(
      "limit: the HCAs of a node carry %.1f GB/s each way, so %d ranks in %d nodes cannot pass a busbw of %.1f GB/s "
      "without SHARP; the peak is %.0f %% of it",
      hca_gbs, info.ranks, info.nodes, limit, best / limit * 100)};
}

std::vector<std::string> describe_cycles(const std::vector<Row>& rows) {
  if (rows.empty() || rows.back().cycle == 0) return {};
  const Row* largest = &rows.front();
  for (const Row& row : rows)
    if (row.bytes > largest->bytes) largest = &row;
  std::vector<const Row*> same;  // of the largest size, in time
  std::vector<double> times;
  for (const Row& row : rows)
    if (row.bytes == largest->bytes && row.type == largest->type && row.op == largest->op && row.root == largest->root)
      same.push_back(&row), times.push_back(row.out.seconds);
  std::sort(times.begin(), times.end());
  const auto by_time = [](const Row* a, const Row* b) { return a->out.seconds < b->out.seconds; };
  const Row &best = **std::min_element(same.begin(), same.end(), by_time),
            &worst = **std::max_element(same.begin(), same.end(), by_time);
  const auto stamp = [](const Row& row) { return local_time_text(row.stamp); };
  return {print(
      "%zu cycles from %s to %s: %s out of place takes %.2f us (median), least %.2f us in cycle %lld at %s, most "
      "%.2f us in cycle %lld at %s",
      same.size(), stamp(*same.front()).c_str(), stamp(*same.back()).c_str(), human_size(largest->bytes).c_str(),
      percentile(times, 0.5) * 1e6, best.out.seconds * 1e6, static_cast<long long>(best.cycle) + 1, stamp(best).c_str(),
      worst.out.seconds * 1e6, static_cast<long long>(worst.cycle) + 1, stamp(worst).c_str())};
}

std::vector<std::string> describe_groups(const RunInfo& info, const std::vector<Row>& rows) {
  const Row* largest = nullptr;
  for (const Row& row : rows)
    if (!row.groups.empty() && (largest == nullptr || row.bytes >= largest->bytes)) largest = &row;
  if (largest == nullptr || largest->groups.size() != info.groups.size()) return {};
  struct Line {
    size_t group;
    double seconds, busbw;
  };
  std::vector<Line> groups;
  std::vector<double> times;
  for (size_t g = 0; g < info.groups.size(); ++g) {
    // The better placement: the first has the warm-up of new buffers in it.
    const GroupHalf &out = largest->groups[g].out, &in = largest->groups[g].in;
    const GroupHalf& half = in.seconds > 0 && in.seconds < out.seconds ? in : out;
    groups.push_back({g, half.seconds, half.busbw});
    times.push_back(half.seconds);
  }
  std::sort(times.begin(), times.end());
  const double middle = percentile(times, 0.5);
  std::sort(groups.begin(), groups.end(), [](const Line& a, const Line& b) { return a.seconds > b.seconds; });
  std::vector<std::string> lines = {
      print("groups with %s %s %s, the slowest first (slow: below 90 %% of the median):",
            human_size(largest->bytes).c_str(), largest->type.c_str(), largest->op.c_str()),
      print("%8s %6s %12s %10s %8s  %s", "group", "ranks", "time (us)", "busbw", "median", "ranks")};
  for (const Line& line : groups) {
    if (lines.size() == kMostGroups + 2) {
      lines.push_back(print("and %zu more", groups.size() - kMostGroups));
      break;
    }
    const GroupLine& group = info.groups[line.group];
    const double share = line.seconds > 0 ? middle / line.seconds : 0;
    std::set<std::string> hosts;
    for (const int rank : group.ranks)
      if (rank < static_cast<int>(info.devices.size())) hosts.insert(info.devices[rank].host);
    std::string text =
        print("%8lld %6zu %12.2f %10.2f %7.0f%%  %s", static_cast<long long>(group.color), group.ranks.size(),
              line.seconds * 1e6, line.busbw, share * 100, rank_list(group.ranks, 4).c_str());
    if (!hosts.empty() && hosts.size() <= 2) text += " at " + join({hosts.begin(), hosts.end()}, ", ");
    if (share < 0.9 && line.seconds > 0) text += "  slow";
    lines.push_back(text);
  }
  return lines;
}

std::vector<std::string> describe_wrong(const RunInfo& info, const std::vector<Row>& rows) {
  std::vector<std::string> lines;
  for (const Row& row : rows)
    for (const auto& [name, half] : {std::pair("out of place", &row.out), std::pair("in place", &row.in)}) {
      if (!half->checked || half->wrong == 0) continue;
      std::string text =
          print("wrong data: %s %s %s, %s: %lld elements of %d ranks", human_size(row.bytes).c_str(), row.type.c_str(),
                row.op.c_str(), name, static_cast<long long>(half->wrong), half->bad_ranks);
      if (half->wrong_rank >= 0)
        text += print("; first: %s, element %lld, expected %s, found %s", name_rank(info, half->wrong_rank).c_str(),
                      static_cast<long long>(half->wrong_element), half->expected.c_str(), half->found.c_str());
      lines.push_back(text);
    }
  if (!lines.empty())
    lines.insert(
        lines.begin(),
        "#wrong counts the elements that differ from what they must be; the footer counts the checks (a rank, a size, "
        "in or out of place) that found any");
  return lines;
}

std::vector<std::string> describe_repeats(const RunInfo& info, const std::vector<Row>& rows) {
  if (info.options.repeat == 0) return {};
  std::vector<std::string> lines;
  size_t compared = 0;
  for (const Row& row : rows)
    for (const auto& [name, half] : {std::pair("out of place", &row.out), std::pair("in place", &row.in)}) {
      const Repeats& repeats = half->repeats;
      compared += repeats.runs > 0;
      if (repeats.differing == 0 || lines.size() == kMostLines) continue;
      lines.push_back(print(
          "not repeatable: %s %s %s, %s: %d of %d runs gave other bits than the first; run %d in %lld elements of "
          "%d ranks; first: %s, element %lld, %s, then %s",
          human_size(row.bytes).c_str(), row.type.c_str(), row.op.c_str(), name, repeats.differing, repeats.runs,
          repeats.run, static_cast<long long>(repeats.elements), repeats.bad_ranks,
          name_rank(info, repeats.rank).c_str(), static_cast<long long>(repeats.element), repeats.before.c_str(),
          repeats.after.c_str()));
    }
  if (!lines.empty()) {
    lines.emplace_back(
        "a switch that adds (NVLS, SHARP) need not keep to one order: compare with NCCL_NVLS_ENABLE=0 and "
        "NCCL_COLLNET_ENABLE=0; where bits still differ, look for bad memory or a bad link");
  } else if (compared > 0) {
    lines.push_back(print("repeatable: %d runs of one input gave the same bits in each of %zu measurements",
                          info.options.repeat, compared));
  }
  return lines;
}

}  // namespace nccltune::bench
