// Implements GpuDriver on NVML, which is loaded at run time.

#include "worker/gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/gpu/gpu_topology.h"
#include "worker/gpu/nvml_functions.h"

namespace comera::worker {
namespace {

using nvml::Device;
using nvml::Functions;
using nvml::Result;

constexpr unsigned kMaxGpus = 256;
constexpr unsigned kMaxProcesses = 4096;
// The most Xids read in one poll.
constexpr int kMaxXids = 1000;

// The text in a fixed buffer, even if the library did not terminate it.
template <size_t kSize>
std::string Text(const char (&buffer)[kSize]) {
  std::string text(buffer, strnlen(buffer, kSize));
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return text;
}

int64_t Positive(unsigned long long total, unsigned long long less) {
  return total > less ? static_cast<int64_t>(total - less) : 0;
}

class Nvml final : public GpuDriver {
 public:
  ~Nvml() override;
  absl::Status Load(const std::string& library);

  const std::vector<v1::Gpu>& gpus() const override { return gpus_; }
  absl::StatusOr<GpuReading> Read(int gpu) override;
  absl::StatusOr<std::vector<GpuXid>> PopXids() override;

 private:
  absl::Status FindFunctions(const std::string& library);
  absl::Status FindGpus();
  void FindTopology();
  void WatchForXids();
  std::string WayBetween(size_t from, size_t to) const;
  bool HasSwitchLink(size_t gpu) const;
  bool HasLinkTo(size_t from, size_t to) const;
  absl::Status ToStatus(Result result, const char* call) const;
  // The value of an optional function; empty if the GPU does not support it.
  template <typename T, typename Function, typename... Arguments>
  absl::StatusOr<std::optional<T>> Ask(const char* call, Function function,
                                       Arguments... arguments) const;
  absl::Status ReadMemory(Device device, GpuReading* reading) const;
  absl::Status ReadProcesses(Device device, GpuReading* reading) const;

  void* library_ = nullptr;
  Functions call_;
  bool initialised_ = false;
  std::vector<Device> devices_;
  std::vector<v1::Gpu> gpus_;
  nvml::EventSet events_ = nullptr;
};

Nvml::~Nvml() {
  if (events_ != nullptr) call_.free_event_set(events_);
  if (initialised_) call_.shutdown();
  if (library_ != nullptr) dlclose(library_);
}

absl::Status Nvml::ToStatus(Result result, const char* call) const {
  if (result == nvml::kSuccess) return absl::OkStatus();
  const char* text =
      call_.error_string == nullptr ? nullptr : call_.error_string(result);
  const std::string message = absl::StrCat(
      call, ": ", text == nullptr ? "error" : text, " (", result, ")");
  if (result == nvml::kDriverNotLoaded || result == nvml::kNoPermission) {
    return absl::FailedPreconditionError(message);
  }
  return absl::UnavailableError(message);
}

absl::Status Nvml::FindFunctions(const std::string& library) {
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    const char* const why = dlerror();
    return absl::NotFoundError(
        absl::StrCat("cannot load ", library, ": ", why == nullptr ? "" : why));
  }
#define COMERA_NVML_FIND(member, symbol, parameters) \
  call_.member =                                     \
      reinterpret_cast<decltype(call_.member)>(dlsym(library_, #symbol));
#define COMERA_NVML_NEED(member, symbol, parameters)                          \
  COMERA_NVML_FIND(member, symbol, parameters)                                \
  if (call_.member == nullptr) {                                              \
    return absl::FailedPreconditionError(                                     \
        absl::StrCat(library, " has no " #symbol ": the driver is too old")); \
  }
  COMERA_NVML_REQUIRED(COMERA_NVML_NEED)
  COMERA_NVML_OPTIONAL(COMERA_NVML_FIND)
#undef COMERA_NVML_NEED
#undef COMERA_NVML_FIND
  call_.error_string = reinterpret_cast<decltype(call_.error_string)>(
      dlsym(library_, "nvmlErrorString"));
  return absl::OkStatus();
}

absl::Status Nvml::Load(const std::string& library) {
  RETURN_IF_ERROR(FindFunctions(library));
  RETURN_IF_ERROR(ToStatus(call_.init(), "nvmlInit_v2"));
  initialised_ = true;
  RETURN_IF_ERROR(FindGpus());
  FindTopology();
  WatchForXids();
  return absl::OkStatus();
}

absl::Status Nvml::FindGpus() {
  unsigned count = 0;
  RETURN_IF_ERROR(ToStatus(call_.count(&count), "nvmlDeviceGetCount_v2"));
  if (count > kMaxGpus) {
    return absl::InternalError(absl::StrCat("NVML tells of ", count, " GPUs"));
  }
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    RETURN_IF_ERROR(
        ToStatus(call_.handle(i, &device), "nvmlDeviceGetHandleByIndex_v2"));
    char uuid[96] = {}, name[96] = {};
    RETURN_IF_ERROR(
        ToStatus(call_.uuid(device, uuid, sizeof(uuid)), "nvmlDeviceGetUUID"));
    RETURN_IF_ERROR(
        ToStatus(call_.name(device, name, sizeof(name)), "nvmlDeviceGetName"));
    nvml::PciInfo pci = {};
    RETURN_IF_ERROR(
        ToStatus(call_.pci_info(device, &pci), "nvmlDeviceGetPciInfo_v3"));
    nvml::Memory memory = {};
    RETURN_IF_ERROR(
        ToStatus(call_.memory(device, &memory), "nvmlDeviceGetMemoryInfo"));
    v1::Gpu gpu;
    gpu.set_uuid(Text(uuid));
    gpu.set_name(Text(name));
    gpu.set_pci_bus_id(Text(pci.bus_id));
    gpu.set_memory_bytes(static_cast<int64_t>(memory.total));
    if (gpu.uuid().empty()) {
      return absl::InternalError(absl::StrCat("GPU ", i, " has no UUID"));
    }
    devices_.push_back(device);
    gpus_.push_back(std::move(gpu));
  }
  return absl::OkStatus();
}

bool Nvml::HasSwitchLink(size_t gpu) const {
  if (call_.link_state == nullptr || call_.link_type == nullptr) return false;
  for (unsigned link = 0; link < nvml::kMaxLinks; ++link) {
    int active = 0, type = -1;
    if (call_.link_state(devices_[gpu], link, &active) != nvml::kSuccess) {
      return false;
    }
    if (active == 1 &&
        call_.link_type(devices_[gpu], link, &type) == nvml::kSuccess &&
        type == nvml::kNvlinkSwitch) {
      return true;
    }
  }
  return false;
}

bool Nvml::HasLinkTo(size_t from, size_t to) const {
  if (call_.link_state == nullptr || call_.link_peer == nullptr) return false;
  for (unsigned link = 0; link < nvml::kMaxLinks; ++link) {
    int active = 0;
    if (call_.link_state(devices_[from], link, &active) != nvml::kSuccess) {
      return false;
    }
    nvml::PciInfo peer = {};
    if (active == 1 &&
        call_.link_peer(devices_[from], link, &peer) == nvml::kSuccess &&
        Text(peer.bus_id) == gpus_[to].pci_bus_id()) {
      return true;
    }
  }
  return false;
}

std::string Nvml::WayBetween(size_t from, size_t to) const {
  if (HasLinkTo(from, to) || (HasSwitchLink(from) && HasSwitchLink(to))) {
    return "NVLink";
  }
  int level = -1;
  if (call_.ancestor == nullptr ||
      call_.ancestor(devices_[from], devices_[to], &level) != nvml::kSuccess) {
    return "";
  }
  switch (level) {
    case nvml::kSameBoard:
      return "same board";
    case nvml::kOneSwitch:
      return "PCIe switch";
    case nvml::kSwitches:
      return "PCIe switches";
    case nvml::kHostBridge:
      return "PCIe host bridge";
    case nvml::kNumaNode:
      return "NUMA node";
    default:
      return "another NUMA node";
  }
}

void Nvml::FindTopology() {
  for (size_t from = 0; from < gpus_.size(); ++from) {
    std::vector<std::string> ways(gpus_.size());
    for (size_t to = 0; to < gpus_.size(); ++to) {
      if (to != from) ways[to] = WayBetween(from, to);
    }
    gpus_[from].set_topology(DescribeTopology(ways));
  }
}

// Without support for events, ECC counters and errors of calls still show
// faults.
void Nvml::WatchForXids() {
  if (call_.event_set == nullptr || call_.register_events == nullptr ||
      call_.wait == nullptr || call_.free_event_set == nullptr ||
      call_.event_set(&events_) != nvml::kSuccess) {
    events_ = nullptr;
    return;
  }
  bool any = false;
  for (Device device : devices_) {
    any |= call_.register_events(device, nvml::kXidEvent, events_) ==
           nvml::kSuccess;
  }
  if (any) return;
  call_.free_event_set(events_);
  events_ = nullptr;
}

template <typename T, typename Function, typename... Arguments>
absl::StatusOr<std::optional<T>> Nvml::Ask(const char* call, Function function,
                                           Arguments... arguments) const {
  if (function == nullptr) return std::optional<T>();
  T value = {};
  const Result result = function(arguments..., &value);
  if (result == nvml::kNotSupported) return std::optional<T>();
  RETURN_IF_ERROR(ToStatus(result, call));
  return std::optional<T>(value);
}

absl::Status Nvml::ReadMemory(Device device, GpuReading* reading) const {
  if (call_.memory_v2 != nullptr) {
    nvml::MemoryV2 memory = {};
    memory.version = nvml::kMemoryV2;
    if (call_.memory_v2(device, &memory) == nvml::kSuccess) {
      // Headers differ on whether `used` includes reserved memory.
      reading->used_bytes =
          Positive(memory.total, memory.free + memory.reserved);
      return absl::OkStatus();
    }
  }
  nvml::Memory memory = {};
  RETURN_IF_ERROR(
      ToStatus(call_.memory(device, &memory), "nvmlDeviceGetMemoryInfo"));
  reading->used_bytes = Positive(memory.total, memory.free);
  return absl::OkStatus();
}

absl::Status Nvml::ReadProcesses(Device device, GpuReading* reading) const {
  if (call_.processes == nullptr) return absl::OkStatus();
  std::vector<nvml::ProcessInfo> found;
  unsigned count = 0;
  Result result = call_.processes(device, &count, nullptr);
  // The number of processes may grow between two calls.
  for (int tries = 0; result == nvml::kInsufficientSize && tries < 5; ++tries) {
    count = std::min(count + 8, kMaxProcesses);
    found.resize(count);
    result = call_.processes(device, &count, found.data());
  }
  if (result == nvml::kNotSupported) return absl::OkStatus();
  RETURN_IF_ERROR(ToStatus(result, "nvmlDeviceGetComputeRunningProcesses_v3"));
  found.resize(std::min<size_t>(count, found.size()));
  for (const nvml::ProcessInfo& info : found) {
    GpuReading::Process process;
    process.pid = info.pid;
    if (info.memory != nvml::kMemoryUnknown) {
      process.memory_bytes = static_cast<int64_t>(info.memory);
    }
    reading->processes.push_back(process);
  }
  return absl::OkStatus();
}

absl::StatusOr<GpuReading> Nvml::Read(int gpu) {
  if (gpu < 0 || gpu >= static_cast<int>(devices_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("no GPU ", gpu));
  }
  const Device device = devices_[gpu];
  GpuReading reading;
  RETURN_IF_ERROR(ReadMemory(device, &reading));
  RETURN_IF_ERROR(ReadProcesses(device, &reading));
  ASSIGN_OR_RETURN(
      const auto ecc,
      Ask<unsigned long long>("nvmlDeviceGetTotalEccErrors", call_.ecc, device,
                              nvml::kUncorrected, nvml::kVolatile));
  if (ecc.has_value()) reading.uncorrected_ecc = *ecc;
  ASSIGN_OR_RETURN(const auto temperature,
                   Ask<unsigned>("nvmlDeviceGetTemperature", call_.temperature,
                                 device, nvml::kGpuSensor));
  if (temperature.has_value()) {
    reading.temperature = static_cast<int>(*temperature);
  }
  ASSIGN_OR_RETURN(const auto threshold,
                   Ask<unsigned>("nvmlDeviceGetTemperatureThreshold",
                                 call_.threshold, device, nvml::kSlowdown));
  if (threshold.has_value()) {
    reading.slowdown_temperature = static_cast<int>(*threshold);
  }
  // Only shown to users: a GPU that does not report these is fit all the same.
  const auto use = Ask<nvml::Utilization>("nvmlDeviceGetUtilizationRates",
                                          call_.utilization, device);
  if (use.ok() && use->has_value()) {
    reading.utilization_percent = static_cast<int>((*use)->gpu);
  }
  const auto power =
      Ask<unsigned>("nvmlDeviceGetPowerUsage", call_.power, device);
  if (power.ok() && power->has_value()) reading.power_milliwatts = **power;
  return reading;
}

absl::StatusOr<std::vector<GpuXid>> Nvml::PopXids() {
  std::vector<GpuXid> xids;
  if (events_ == nullptr) return xids;
  for (int i = 0; i < kMaxXids; ++i) {
    nvml::EventData event = {};
    const Result result = call_.wait(events_, &event, /*timeout_ms=*/0);
    if (result == nvml::kTimeout) break;
    RETURN_IF_ERROR(ToStatus(result, "nvmlEventSetWait_v2"));
    const auto device =
        std::find(devices_.begin(), devices_.end(), event.device);
    if (device == devices_.end() || event.type != nvml::kXidEvent) continue;
    xids.push_back({static_cast<int>(device - devices_.begin()), event.data});
  }
  return xids;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuDriver>> LoadNvml(
    const std::string& library) {
  auto nvml = std::make_unique<Nvml>();
  RETURN_IF_ERROR(nvml->Load(library));
  return nvml;
}

}  // namespace comera::worker
