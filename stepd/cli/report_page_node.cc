// SPDX-License-Identifier: Apache-2.0
#include "cli/report_page_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "cli/html.h"

namespace nccltune::cli {

namespace {

using Json = nlohmann::ordered_json;

const Json& list_of(const Json& json, const char* name) {
  static const Json kEmpty = Json::array();
  const auto it = json.is_object() ? json.find(name) : json.end();
  return it != json.end() && it->is_array() ? *it : kEmpty;
}

std::string cell(const char* name, const std::string& content, bool code = false) {
  return std::string("<td data-name=\"") + name + "\">" + (code ? "<code>" + content + "</code>" : content) + "</td>";
}

std::string table(const std::vector<const char*>& heads, const std::string& rows) {
  std::string out = "<div class=\"wide\"><table class=\"stack\"><thead><tr>";
  for (const char* head : heads) out += std::string("<th>") + head + "</th>";
  return out + "</tr></thead><tbody>" + rows + "</tbody></table></div>";
}

int numa_of(const Json& item) {
  const auto it = item.is_object() ? item.find("numa_node") : item.end();
  return it != item.end() && it->is_number_integer() ? it->get<int>() : -1;
}

std::string gpu_part(const Json& gpu) {
  const std::string model = text_of_field(gpu, "model");
  const auto minor =
      gpu.is_object() && gpu.contains("minor") && gpu["minor"].is_number_integer() ? gpu["minor"].dump() : "";
  return "<li class=\"part gpu\">GPU " + html(minor) + "<small>" + html(text_of_field(gpu, "bdf")) +
         (model.empty() ? "" : "<br>" + html(model)) + "</small></li>";
}

std::string hca_part(const Json& hca) {
  const std::string use = text_of_field(hca, "use");
  const bool used = use == "compute";
  const auto rate = hca.is_object() && hca.contains("rate_gbps") && hca["rate_gbps"].is_number()
                        ? fmt::format(" {:g} Gb/s", hca["rate_gbps"].get<double>())
                        : "";
  return std::string("<li class=\"part ") + (used ? "used" : "unused") + "\" title=\"" +
         html(text_of_field(hca, "why")) + "\">" + html(text_of_field(hca, "name")) + "<small>" +
         html(text_of_field(hca, "link_layer")) + rate + "<br>" + (used ? "chosen" : html(use)) + "</small></li>";
}

// GPUs and HCAs that meet below one switch (PIX or PXB from one another).
struct Switch {
  std::vector<const Json*> gpus, hcas;
};

bool meet(const Json& gpu, const std::string& hca) {
  const auto it = gpu.is_object() ? gpu.find("distances") : gpu.end();
  const std::string distance = it == gpu.end() ? "" : text_of_field(*it, hca.c_str());
  return distance == "PIX" || distance == "PXB";
}

// The switches of these GPUs; an HCA that is near to none of them stays outside.
std::vector<Switch> switches_of(const std::vector<const Json*>& gpus, const std::vector<const Json*>& hcas) {
  std::vector<Switch> switches;
  for (const Json* gpu : gpus) {
    std::set<const Json*> near;
    for (const Json* hca : hcas)
      if (meet(*gpu, text_of_field(*hca, "name"))) near.insert(hca);
    Switch* home = nullptr;
    for (Switch& one : switches)
      if (!near.empty() &&
          std::any_of(one.hcas.begin(), one.hcas.end(), [&](const Json* h) { return near.contains(h); }))
        home = &one;
    if (!home) home = &switches.emplace_back();
    home->gpus.push_back(gpu);
    for (const Json* hca : hcas)
      if (near.contains(hca) && !std::count(home->hcas.begin(), home->hcas.end(), hca)) home->hcas.push_back(hca);
  }
  return switches;
}

std::string parts(const std::vector<const Json*>& gpus, const std::vector<const Json*>& hcas) {
  std::string out = "<ul class=\"parts\">";
  for (const Json* gpu : gpus) out += gpu_part(*gpu);
  for (const Json* hca : hcas) out += hca_part(*hca);
  return out + "</ul>";
}

std::string numa_box(const std::string& title, const std::string& cpus, const std::vector<const Json*>& gpus,
                     const std::vector<const Json*>& hcas) {
  std::string out = "<section class=\"numa\"><h3>" + html(title) + "</h3>";
  if (!cpus.empty()) out += "<p class=\"soft\">CPUs " + html(cpus) + "</p>";
  std::set<const Json*> drawn;
  std::vector<const Json*> lone;
  for (const Switch& one : switches_of(gpus, hcas)) {
    drawn.insert(one.hcas.begin(), one.hcas.end());
    if (one.hcas.empty()) {
      lone.insert(lone.end(), one.gpus.begin(), one.gpus.end());
      continue;
    }
    out += "<div class=\"switch\"><h4>below one PCIe switch</h4>" + parts(one.gpus, one.hcas) + "</div>";
  }
  std::vector<const Json*> rest;
  for (const Json* hca : hcas)
    if (!drawn.contains(hca)) rest.push_back(hca);
  if (!lone.empty() || !rest.empty())
    out += "<div class=\"switch\"><h4>on the host bridge</h4>" + parts(lone, rest) + "</div>";
  return out + "</section>";
}

std::string host_of(const Json& document) {
  const std::string host = text_of_field(document, "host");
  return host.empty() ? "a recorded machine" : html(host);
}

const char* class_of(const std::string& status) {
  return status == "ok" ? "ok" : status == "warn" ? "warn" : status == "fail" ? "fail" : "skipped";
}

}  // namespace

std::string topology_section(const Json& topology) {
  std::map<int, std::pair<std::vector<const Json*>, std::vector<const Json*>>> by_numa;
  for (const Json& gpu : list_of(topology, "gpus")) by_numa[numa_of(gpu)].first.push_back(&gpu);
  for (const Json& hca : list_of(topology, "hcas")) by_numa[numa_of(hca)].second.push_back(&hca);
  std::map<int, std::string> cpus;
  for (const Json& numa : list_of(topology, "numa"))
    if (numa.is_object() && numa.contains("id") && numa["id"].is_number_integer())
      cpus[numa["id"].get<int>()] = text_of_field(numa, "cpus");
  std::string out = "<p>" + host_of(topology) + ", platform " + html(text_of_field(topology, "platform")) +
                    ". Boxes with a strong border are the HCAs that NCCL is told to use.</p><div class=\"node\">";
  for (const auto& [numa, devices] : by_numa)
    out += numa_box(numa < 0 ? "NUMA node not told" : fmt::format("NUMA node {}", numa), numa < 0 ? "" : cpus[numa],
                    devices.first, devices.second);
  return out + "</div>";
}

std::string plan_section(const Json& plan) {
  std::string env, kept, tasks;
  for (const Json& setting : list_of(plan, "env"))
    env += "<tr>" + cell("variable", html(text_of_field(setting, "name")), true) +
           cell("value", html(text_of_field(setting, "value")), true) +
           cell("why", html(text_of_field(setting, "why"))) + "</tr>";
  for (const Json& setting : list_of(plan, "kept"))
    kept += "<tr>" + cell("variable", html(text_of_field(setting, "name")), true) +
            cell("value", html(text_of_field(setting, "value")), true) +
            cell("set by", html(text_of_field(setting, "source"))) + "</tr>";
  for (const Json& task : list_of(plan, "tasks")) {
    std::string gpus, hcas;
    for (const Json& gpu : list_of(task, "gpus")) gpus += (gpus.empty() ? "" : " ") + html_of(gpu);
    for (const Json& hca : list_of(task, "hcas")) hcas += (hcas.empty() ? "" : " ") + html_of(hca);
    const bool numbered = task.is_object() && task.contains("local_id");
    tasks += "<tr>" + cell("task", numbered ? html_of(task["local_id"]) : "") + cell("GPUs", gpus, true) +
             cell("HCAs beside them", hcas, true) + cell("CPUs", html(text_of_field(task, "cpus")), true) +
             cell("why", html(text_of_field(task, "why"))) + "</tr>";
  }
  std::string out = "<p>" + host_of(plan) + ", profile " + html(text_of_field(plan, "profile")) + "</p>";
  if (!env.empty()) out += "<h3>Exported</h3>" + table({"variable", "value", "why"}, env);
  if (!kept.empty())
    out += "<h3>Kept as the user or the site set it</h3>" + table({"variable", "value", "set by"}, kept);
  if (!tasks.empty()) out += "<h3>Tasks</h3>" + table({"task", "GPUs", "HCAs beside them", "CPUs", "why"}, tasks);
  return out;
}

std::string findings_section(const Json& findings) {
  std::map<std::string, int> counts;
  std::string faults;
  for (const char* wanted : {"fail", "warn"})
    for (const Json& finding : list_of(findings, "findings")) {
      if (text_of_field(finding, "status") != wanted) continue;
      const std::string ignored = text_of_field(finding, "ignored");
      faults +=
          std::string("<tr>") + "<td class=\"state " + class_of(wanted) + "\">" + wanted +
          (ignored.empty() ? "" : ", ignored") + "</td>" + cell("check", html(text_of_field(finding, "id")), true) +
          cell("object", html(text_of_field(finding, "object")), true) +
          cell("observed", html(text_of_field(finding, "observed"))) +
          cell("wanted", html(text_of_field(finding, "wanted"))) +
          cell("why", html(text_of_field(finding, "why")) + (ignored.empty() ? "" : "; ignored: " + html(ignored))) +
          cell("remedy", html(text_of_field(finding, "remedy")), true) + "</tr>";
    }
  for (const Json& finding : list_of(findings, "findings")) ++counts[text_of_field(finding, "status")];
  std::string out = "<p>" + host_of(findings) + ": ";
  for (const char* status : {"fail", "warn", "ok", "skip"})
    out += fmt::format("<span class=\"state {}\">{} {}</span> ", class_of(status), counts[status], status);
  out += "</p>";
  return faults.empty() ? out + "<p>Nothing to mend.</p>"
                        : out + table({"", "check", "object", "observed", "wanted", "why", "remedy"}, faults);
}

}  // namespace nccltune::cli
