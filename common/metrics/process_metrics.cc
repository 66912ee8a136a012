// Reads this process's resource use from /proc and turns it into metric
// families.

#include "common/metrics/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "common/version.h"

namespace comera {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Make(const std::string& name, const std::string& help,
                  MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  family.metric.emplace_back();
  return family;
}

// Field `number` of /proc/self/stat, counted from 1 as in proc(5); -1 if
// missing.
double StatField(int number) {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // The second field, the program's name, may contain any character.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return -1;
  std::istringstream rest(line.substr(end + 1));
  std::string field;
  for (int i = 2; i < number; ++i) rest >> field;
  try {
    return std::stod(field);
  } catch (const std::exception&) {
    return -1;
  }
}

// The time at which the machine started, in seconds since 1970.
double BootTime() {
  std::ifstream file("/proc/stat");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string name;
    double value = 0;
    if (fields >> name >> value && name == "btime") return value;
  }
  return -1;
}

int OpenFiles() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return -1;
  // Starts at -1 because the listing itself holds one descriptor.
  int count = -1;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(folder);
  return count;
}

}  // namespace

MetricFamily MakeGauge(const std::string& name, const std::string& help,
                       double value) {
  MetricFamily family = Make(name, help, MetricType::Gauge);
  family.metric[0].gauge.value = value;
  return family;
}

MetricFamily MakeCounter(const std::string& name, const std::string& help,
                         double value) {
  MetricFamily family = Make(name, help, MetricType::Counter);
  family.metric[0].counter.value = value;
  return family;
}

std::vector<MetricFamily> CollectProcessMetrics() {
  std::vector<MetricFamily> families;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  rusage use = {};
  if (getrusage(RUSAGE_SELF, &use) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) +
             1e-6 * static_cast<double>(time.tv_usec);
    };
    families.push_back(
        MakeCounter("process_cpu_seconds_total",
                    "CPU time of this process, user and system.",
                    seconds(use.ru_utime) + seconds(use.ru_stime)));
  }
  if (const double pages = StatField(24); pages >= 0) {
    families.push_back(
        MakeGauge("process_resident_memory_bytes",
                  "Memory of this process that is in RAM.",
                  pages * static_cast<double>(sysconf(_SC_PAGESIZE))));
  }
  if (const double bytes = StatField(23); bytes >= 0) {
    families.push_back(MakeGauge("process_virtual_memory_bytes",
                                 "Address space of this process.", bytes));
  }
  if (const double threads = StatField(20); threads >= 0) {
    families.push_back(
        MakeGauge("process_threads", "Threads of this process.", threads));
  }
  const double started = StatField(22);
  if (const double boot = BootTime(); boot >= 0 && started >= 0) {
    families.push_back(MakeGauge("process_start_time_seconds",
                                 "When this process started, since 1970.",
                                 boot + started / ticks));
  }
  if (const int files = OpenFiles(); files >= 0) {
    families.push_back(MakeGauge("process_open_fds",
                                 "File descriptors that are open.", files));
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.push_back(MakeGauge("process_max_fds",
                                 "File descriptors that may be open.",
                                 static_cast<double>(limit.rlim_cur)));
  }
  MetricFamily build = MakeGauge("comera_build_info",
                                 "Always 1; the version is in the label.", 1);
  build.metric[0].label.push_back({"version", kVersion});
  families.push_back(std::move(build));
  return families;
}

std::vector<MetricFamily> CollectDiskMetrics(const std::string& path) {
  struct statvfs disk = {};
  if (statvfs(path.c_str(), &disk) != 0) return {};
  const auto block = static_cast<double>(disk.f_frsize);
  return {MakeGauge("comera_disk_bytes",
                    "Size of the file system with the data folder.",
                    block * static_cast<double>(disk.f_blocks)),
          MakeGauge("comera_disk_free_bytes",
                    "Room there that this process may use.",
                    block * static_cast<double>(disk.f_bavail))};
}

}  // namespace comera
