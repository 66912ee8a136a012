// The functions of NVML that the worker calls, declared here because the
// machine that builds it may have no NVML. Names, numbers and layouts are those
// of nvml.h.
#ifndef COMERA_WORKER_GPU_NVML_FUNCTIONS_H_
#define COMERA_WORKER_GPU_NVML_FUNCTIONS_H_

namespace comera::worker::nvml {

using Result = int;  // nvmlReturn_t
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 3;
inline constexpr Result kNotFound = 6;
inline constexpr Result kInsufficientSize = 7;
inline constexpr Result kDriverNotLoaded = 9;
inline constexpr Result kTimeout = 10;
inline constexpr Result kNoPermission = 4;

using Device = struct DeviceTag*;
using EventSet = struct EventSetTag*;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct Memory {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
static_assert(sizeof(MemoryV2) == 40);
inline constexpr unsigned kMemoryV2 = sizeof(MemoryV2) | (2u << 24);

struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;  // kMemoryUnknown if not reported
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);
inline constexpr unsigned long long kMemoryUnknown = ~0ull;

struct Utilization {
  unsigned gpu, memory;  // percent
};
static_assert(sizeof(Utilization) == 8);

struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(EventData) == 32);
inline constexpr unsigned long long kXidEvent = 8;

// Kinds of ECC errors.
inline constexpr int kUncorrected = 1, kVolatile = 0;
// Kinds of temperature.
inline constexpr int kGpuSensor = 0, kSlowdown = 1;
// Kinds of device at the other end of a link.
inline constexpr int kNvlinkSwitch = 2, kNvlinkGpu = 0;
inline constexpr unsigned kMaxLinks = 36;
// Kinds of nearest common ancestor of two GPUs.
inline constexpr int kSameBoard = 0, kOneSwitch = 10, kSwitches = 20,
                     kHostBridge = 30, kNumaNode = 40;

// X(member, exported name, parameters). All drivers of the last years export
// the first group; if a function of the second is missing, what it reports
// stays unknown.
#define COMERA_NVML_REQUIRED(X)                                 \
  X(init, nvmlInit_v2, ())                                      \
  X(shutdown, nvmlShutdown, ())                                 \
  X(count, nvmlDeviceGetCount_v2, (unsigned*))                  \
  X(handle, nvmlDeviceGetHandleByIndex_v2, (unsigned, Device*)) \
  X(uuid, nvmlDeviceGetUUID, (Device, char*, unsigned))         \
  X(name, nvmlDeviceGetName, (Device, char*, unsigned))         \
  X(pci_info, nvmlDeviceGetPciInfo_v3, (Device, PciInfo*))      \
  X(memory, nvmlDeviceGetMemoryInfo, (Device, Memory*))
#define COMERA_NVML_OPTIONAL(X)                                                \
  X(memory_v2, nvmlDeviceGetMemoryInfo_v2, (Device, MemoryV2*))                \
  X(ecc, nvmlDeviceGetTotalEccErrors, (Device, int, int, unsigned long long*)) \
  X(temperature, nvmlDeviceGetTemperature, (Device, int, unsigned*))           \
  X(threshold, nvmlDeviceGetTemperatureThreshold, (Device, int, unsigned*))    \
  X(utilization, nvmlDeviceGetUtilizationRates, (Device, Utilization*))        \
  X(power, nvmlDeviceGetPowerUsage, (Device, unsigned*))                       \
  X(processes, nvmlDeviceGetComputeRunningProcesses_v3,                        \
    (Device, unsigned*, ProcessInfo*))                                         \
  X(ancestor, nvmlDeviceGetTopologyCommonAncestor, (Device, Device, int*))     \
  X(link_state, nvmlDeviceGetNvLinkState, (Device, unsigned, int*))            \
  X(link_type, nvmlDeviceGetNvLinkRemoteDeviceType, (Device, unsigned, int*))  \
  X(link_peer, nvmlDeviceGetNvLinkRemotePciInfo_v2,                            \
    (Device, unsigned, PciInfo*))                                              \
  X(event_set, nvmlEventSetCreate, (EventSet*))                                \
  X(register_events, nvmlDeviceRegisterEvents,                                 \
    (Device, unsigned long long, EventSet))                                    \
  X(wait, nvmlEventSetWait_v2, (EventSet, EventData*, unsigned))               \
  X(free_event_set, nvmlEventSetFree, (EventSet))

struct Functions {
#define COMERA_NVML_MEMBER(member, symbol, parameters) \
  Result(*member) parameters = nullptr;
  COMERA_NVML_REQUIRED(COMERA_NVML_MEMBER)
  COMERA_NVML_OPTIONAL(COMERA_NVML_MEMBER)
#undef COMERA_NVML_MEMBER
  const char* (*error_string)(Result) = nullptr;  // nvmlErrorString, optional
};

}  // namespace comera::worker::nvml

#endif  // COMERA_WORKER_GPU_NVML_FUNCTIONS_H_
