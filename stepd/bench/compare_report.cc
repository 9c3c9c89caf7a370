// SPDX-License-Identifier: Apache-2.0
#include "bench/compare_report.h"

#include "bench/text.h"

namespace nccltune::bench {
namespace {

std::string work_name(const Work& work) {
  const CollectiveInfo& info = info_of(work.collective);
  std::string text = std::string(info.name) + " " + std::string(type_name(work.type));
  if (info.has_op) text += " " + std::string(op_name(work.op));
  return info.has_root ? text + print(" root %d", work.root) : text;
}

std::string change_text(const Changes& changes) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : changes) parts.push_back(value ? name + "=" + *value : name + " unset");
  return join(parts, " ");
}

std::string head_of(const CompareInfo& info, const Comparison& c) {
  std::string text = print("# nccl-tune compare %s: %d ranks, %d node%s, %s, %s, %s\n", info.version.c_str(), c.ranks,
                           c.nodes, c.nodes == 1 ? "" : "s", info.library.empty() ? "no library" : info.library.c_str(),
                           info.device.empty() ? info.worker.c_str() : info.device.c_str(), info.world.c_str());
  text += print(
      "# %d launches of each of %zu variants, a block of all at a time, in random order (seed %llu); a launch counts "
      "once\n"
      "# time: one operation, median over iterations, mean of both placements, median over launches; ratio: within "
      "blocks\n"
      "# verdict: by Student's t over blocks, with Holm's correction for all sizes and variants (%g %% for the whole); "
      "below %g %%: none\n",
      c.launches, c.variants.size(), static_cast<unsigned long long>(info.seed), kFalseDifference * 100, c.least * 100);
  return text;
}

// What NCCL said of the data's way belongs beside the figures: a setting may not have taken effect.
std::string variant_lines(const Comparison& c, const VariantVerdict& v) {
  const Variant& variant = c.variants[v.variant];
  std::string text = print("#\n# %s: %s%s\n", v.variant == 0 ? "baseline" : "variant", variant.name.c_str(),
                           v.variant == 0 && variant.environment.empty() ? ", the environment as it is" : "");
  const std::string changes = change_text(variant.environment);
  if (!changes.empty() && changes != variant.name) text += "#   " + changes + "\n";
  for (const std::string& line : v.data_path) text += "#   " + line + "\n";
  for (const std::string& name : v.unread)
    text += "#   " + name + ": NCCL's log does not name it; this version may not know it, or not need it here\n";
  if (v.fault) {
    text += print("#   %d of %d launches failed: %s: %s\n", v.failed, v.launches, name(v.fault->kind),
                  v.fault->text.c_str());
    for (const std::string& line : v.fault->lines)
      if (line != v.fault->text) text += "#     " + line + "\n";
  }
  return text;
}

std::string interval_text(const Ratio& ratio) {
  return ratio.interval ? print("[%.4f, %.4f]", ratio.interval->first, ratio.interval->second) : "-";
}

std::string table_of(const Comparison& c, const VariantVerdict& v) {
  std::string text;
  size_t work = c.works.size();
  for (const SizeVerdict& size : v.sizes) {
    if (size.work != work) {
      work = size.work;
      text += print("# %s\n#%11s %8s %12s %12s %10s %10s %8s %18s  %s\n", work_name(c.works[work]).c_str(), "size",
                    "launches", "baseline us", "variant us", "GB/s", "GB/s", "ratio", "95 %", "verdict");
    }
    text +=
        print("%12llu %8zu %12.2f %12.2f %10.3f %10.3f %8.4f %18s  %s\n", static_cast<unsigned long long>(size.bytes),
              size.ratio.blocks, size.baseline * 1e6, size.variant * 1e6, size.baseline_gbs, size.variant_gbs,
              size.ratio.ratio, interval_text(size.ratio).c_str(), name(size.verdict));
  }
  return text;
}

}  // namespace

std::string compare_text(const CompareInfo& info, const Comparison& c, const std::vector<VariantVerdict>& verdicts,
                         const CompareEnding& ending) {
  std::string text = head_of(info, c);
  for (const VariantVerdict& v : verdicts) text += variant_lines(c, v) + table_of(c, v);
  text += "#\n";
  for (const std::string& line : ending.trouble) text += "# " + line + "\n";
  if (!ending.complete)
    text += print("# ended early: %zu of %zu launches\n", c.done.size(), c.variants.size() * c.launches);
  text += print("# %zu launches in %.0f s\n", c.done.size(), ending.seconds);
  return text + "# " + ending.sentence + "\n";
}

std::string compare_csv(const Comparison& c, const std::vector<VariantVerdict>& verdicts) {
  std::string text =
      "variant,baseline,collective,type,op,root,bytes,blocks,baseline_us,variant_us,baseline_busbw_gbs,"
      "variant_busbw_gbs,ratio,ratio_low,ratio_high,p,p_corrected,verdict,launches,failed,fault\n";
  for (const VariantVerdict& v : verdicts) {
    const std::string variant = csv_field(c.variants[v.variant].name), baseline = csv_field(c.variants[0].name);
    const std::string tail =
        print(",%d,%d,", v.launches, v.failed) + (v.fault ? csv_field(v.fault->text) : std::string()) + "\n";
    // A variant without any figure is a row all the same.
    if (v.sizes.empty() && v.variant != 0) text += variant + "," + baseline + ",,,,,,,,,,,,,,,," + "-" + tail;
    for (const SizeVerdict& s : v.sizes) {
      const Work& work = c.works[s.work];
      const CollectiveInfo& info = info_of(work.collective);
      const bool any = s.ratio.interval.has_value();
      text += variant + "," + baseline + "," + std::string(info.name) + "," + std::string(type_name(work.type)) + "," +
              (info.has_op ? std::string(op_name(work.op)) : "") + "," + (info.has_root ? print("%d", work.root) : "") +
              print(",%llu,%zu,%.3f,%.3f,%.6g,%.6g,%.6g,", static_cast<unsigned long long>(s.bytes), s.ratio.blocks,
                    s.baseline * 1e6, s.variant * 1e6, s.baseline_gbs, s.variant_gbs, s.ratio.ratio) +
              (any ? print("%.6g,%.6g,%.6g,%.6g,", s.ratio.interval->first, s.ratio.interval->second, s.ratio.p, s.p)
                   : ",,,,") +
              name(s.verdict) + tail;
    }
  }
  return text;
}

}  // namespace nccltune::bench
