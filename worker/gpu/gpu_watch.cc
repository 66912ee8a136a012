// Polls GPUs and judges errors, temperature and foreign memory to tell whether
// they are fit.

#include "worker/gpu/gpu_watch.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace comera::worker {
namespace {

// Xids that faulty programs cause on a healthy GPU: bad accesses and
// instructions, and channels cleaned up after them.
constexpr uint64_t kXidsOfPrograms[] = {13, 31, 43, 45, 68, 109};
constexpr size_t kNamedProcesses = 5;

std::string Mib(int64_t bytes) { return absl::StrCat(bytes >> 20, " MiB"); }

std::string DescribeProcesses(const GpuReading& reading) {
  std::string text;
  for (size_t i = 0; i < reading.processes.size(); ++i) {
    if (i == kNamedProcesses) {
      absl::StrAppend(&text, ", and more");
      break;
    }
    const GpuReading::Process& process = reading.processes[i];
    absl::StrAppend(&text, i == 0 ? ", by process " : ", ", process.pid);
    if (process.memory_bytes.has_value()) {
      absl::StrAppend(&text, " (", Mib(*process.memory_bytes), ")");
    }
  }
  return text;
}

}  // namespace

GpuWatch::GpuWatch(const Options& options, std::unique_ptr<GpuDriver> driver)
    : options_(options),
      driver_(std::move(driver)),
      states_(driver_->gpus().size()) {}

GpuWatch::~GpuWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void GpuWatch::Start(std::function<void()> changed) {
  thread_ =
      std::thread([this, changed = std::move(changed)] { Loop(changed); });
}

void GpuWatch::Loop(const std::function<void()>& changed) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ending_) {
    woken_ = false;
    lock.unlock();
    if (Poll()) changed();
    lock.lock();
    wake_.wait_for(lock, absl::ToChronoNanoseconds(Interval()),
                   [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                     return ending_ || woken_;
                   });
  }
}

absl::Duration GpuWatch::Interval() const {
  for (const State& state : states_) {
    if (state.ended.has_value() &&
        options_.clock->Now() - *state.ended < options_.free_timeout) {
      return options_.short_interval;
    }
  }
  return options_.interval;
}

GpuWatch::State* GpuWatch::Find(const std::string& uuid) {
  const std::vector<v1::Gpu>& gpus = driver_->gpus();
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].uuid() == uuid) return &states_[i];
  }
  return nullptr;
}

std::string GpuWatch::Unfit(const std::string& uuid) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const State* state = const_cast<GpuWatch*>(this)->Find(uuid);
  return state == nullptr ? "no such GPU" : state->reason;
}

void GpuWatch::Begin(const std::string& uuid) {
  const std::lock_guard<std::mutex> lock(mutex_);
  State* state = Find(uuid);
  if (state == nullptr) return;
  ++state->ranks;
  state->ended.reset();
}

void GpuWatch::End(const std::string& uuid) {
  const std::lock_guard<std::mutex> lock(mutex_);
  State* state = Find(uuid);
  if (state == nullptr || state->ranks == 0 || --state->ranks > 0) return;
  state->ended = options_.clock->Now();
  if (state->reason.empty()) {
    state->reason = "memory of the last member is not seen to be free yet";
  }
  woken_ = true;
  wake_.notify_all();
}

void GpuWatch::RecordXids() {
  const absl::StatusOr<std::vector<GpuXid>> xids = driver_->PopXids();
  if (!xids.ok()) {
    LOG_EVERY_N(WARNING, 100) << "GPU events " << xids.status();
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const GpuXid& event : *xids) {
    if (event.gpu < 0 || event.gpu >= static_cast<int>(states_.size()))
      continue;
    const bool of_program = absl::c_linear_search(kXidsOfPrograms, event.xid);
    LOG(ERROR) << "GPU error gpu=" << driver_->gpus()[event.gpu].uuid()
               << " xid=" << event.xid << " fatal=" << !of_program;
    State& state = states_[event.gpu];
    if (of_program || !state.fatal.empty()) continue;
    state.fatal = absl::StrCat("critical error, Xid ", event.xid,
                               "; reset the GPU and restart the worker");
  }
}

std::string GpuWatch::JudgeMemory(const GpuReading& reading, State& state) {
  if (state.ranks > 0) return "";
  if (reading.used_bytes <= options_.idle_bytes && reading.processes.empty()) {
    state.ended.reset();
    return "";
  }
  const std::string used = absl::StrCat(Mib(reading.used_bytes), " in use",
                                        DescribeProcesses(reading));
  if (!state.ended.has_value()) {
    return absl::StrCat("somebody else computes there: ", used);
  }
  if (options_.clock->Now() - *state.ended < options_.free_timeout) {
    return "memory of the last member is not seen to be free yet";
  }
  return absl::StrCat("memory was not freed within ",
                      absl::FormatDuration(options_.free_timeout),
                      " of the last member's end: ", used);
}

std::string GpuWatch::Judge(const absl::StatusOr<GpuReading>& reading,
                            State& state) {
  if (!state.fatal.empty()) return state.fatal;
  if (!reading.ok()) {
    return absl::StrCat("cannot be read: ", reading.status().message());
  }
  if (reading->uncorrected_ecc.value_or(0) > 0) {
    return absl::StrCat(*reading->uncorrected_ecc,
                        " uncorrected memory errors; reset the GPU");
  }
  if (reading->temperature.has_value() &&
      reading->slowdown_temperature.value_or(0) > 0) {
    const int limit =
        *reading->slowdown_temperature - (state.hot ? options_.cooling : 0);
    state.hot = *reading->temperature >= limit;
    if (state.hot) {
      return absl::StrCat("at ", *reading->temperature,
                          " degrees C, slows down at ",
                          *reading->slowdown_temperature);
    }
  }
  return JudgeMemory(*reading, state);
}

std::vector<GpuWatch::Seen> GpuWatch::seen() const {
  std::vector<Seen> all;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < states_.size(); ++i) {
    all.push_back({driver_->gpus()[i], states_[i].reason, states_[i].reading});
  }
  return all;
}

bool GpuWatch::Poll() {
  RecordXids();
  bool changed = false;
  for (size_t i = 0; i < driver_->gpus().size(); ++i) {
    const v1::Gpu& gpu = driver_->gpus()[i];
    bool idle = false;
    std::optional<absl::Time> ended;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      idle = states_[i].ranks == 0;
      ended = states_[i].ended;
    }
    // May take long when the driver is in trouble.
    const absl::StatusOr<GpuReading> reading =
        driver_->Read(static_cast<int>(i));
    const std::lock_guard<std::mutex> lock(mutex_);
    State& state = states_[i];
    state.reading.reset();
    if (reading.ok()) state.reading = *reading;
    // A member started or ended meanwhile, so that the reading is out of date.
    if (idle != (state.ranks == 0) || ended != state.ended) continue;
    std::string reason = Judge(reading, state);
    if (reason == state.reason) continue;
    LOG_IF(WARNING, !reason.empty())
        << "GPU unfit gpu=" << gpu.uuid() << " reason=\"" << reason << "\"";
    LOG_IF(INFO, reason.empty()) << "GPU fit gpu=" << gpu.uuid();
    state.reason = std::move(reason);
    changed = true;
  }
  return changed;
}

}  // namespace comera::worker
