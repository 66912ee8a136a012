// Loads models on demand into child processes, queues calls to them, and
// unloads idle ones.

#include "worker/predict/served_models.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "proto/resource_names.h"
#include "worker/predict/model_files.h"

namespace comera::worker {
namespace {

constexpr size_t kMostAllowed = 10000;
constexpr absl::Duration kAskTimeout = absl::Seconds(30);
constexpr absl::Duration kLookInterval = absl::Milliseconds(100);

std::string VersionOf(const v1::Artifact& model) {
  std::string version;
  for (const v1::ArtifactFile& file : model.files()) {
    absl::StrAppend(&version, file.path(), "=", file.sha256(), "\n");
  }
  return version;
}

}  // namespace

// One attempt to make a model ready. Guarded by ServedModels::mutex_, but for
// the thread that makes the attempt, until it is done.
struct ServedModels::Loading {
  bool done = false;
  absl::Status status;
  // What the attempt has led to.
  std::string version;
  v1::ServedModel served;
  std::shared_ptr<ChildCalls> calls;
};

// A model that is ready, or is being made ready.
struct ServedModels::Entry {
  ~Entry() {
    evicted = true;
    if (loader.joinable()) loader.join();
    ready.reset();
    std::error_code error;
    std::filesystem::remove_all(folder, error);
  }

  // The folder belongs to this entry alone: a later entry of the same name may
  // exist before this one is destroyed.
  std::string name, folder;
  // Soon after this is set, loading ends.
  std::atomic<bool> evicted{false};
  // The rest is guarded by ServedModels::mutex_. The thread is that of the last
  // attempt, and ends right after it.
  std::thread loader;
  // Null while nothing loads.
  std::shared_ptr<Loading> loading;
  // The last attempt that succeeded; null while no process runs.
  std::shared_ptr<Loading> ready;
  int users = 0;
  absl::Time last_used;
};

absl::StatusOr<std::unique_ptr<ServedModels>> ServedModels::Create(
    const Options& options, const CoordinatorChannels& channels) {
  std::error_code error;
  std::filesystem::remove_all(options.folder, error);
  RETURN_IF_ERROR(MakeDirectories(options.folder));
  return absl::WrapUnique(new ServedModels(options, channels));
}

ServedModels::ServedModels(const Options& options,
                           const CoordinatorChannels& channels)
    : options_(options),
      channels_(channels),
      calls_(options.most_calls, options.most_request_bytes),
      asking_(options.most_calls, options.most_request_bytes),
      keeper_([this] { Keep(); }) {}

ServedModels::~ServedModels() {
  stopping_ = true;
  std::map<std::string, std::shared_ptr<Entry>> entries;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries.swap(entries_);
  }
  // Waits for what loads, which may need the keeper.
  entries.clear();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  keeper_.join();
}

void ServedModels::RunOnKeeper(const std::function<void()>& start) {
  std::promise<void> done;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back([&] {
      start();
      done.set_value();
    });
    changed_.notify_all();
  }
  done.get_future().wait();
}

void ServedModels::Keep() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ending_) {
    changed_.wait_for(lock, absl::ToChronoNanoseconds(options_.look_interval),
                      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                        return ending_ || !tasks_.empty();
                      });
    while (!tasks_.empty()) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
    lock.unlock();
    EndStuck();
    DropIdle();
    lock.lock();
  }
}

// Callers' deadlines prove nothing: one that only waited its turn may fail
// while the process works for another. Hence no call decides this.
void ServedModels::EndStuck() {
  std::vector<std::pair<std::string, std::shared_ptr<ChildCalls>>> loaded;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (entry->ready != nullptr) {
        loaded.emplace_back(name, entry->ready->calls);
      }
    }
  }
  for (const auto& [name, calls] : loaded) {
    if (!calls->status().ok()) continue;
    if (calls->silence(absl::Now()) <= options_.most_late) continue;
    LOG(WARNING) << "model stuck name=" << name;
    calls->End(absl::FailedPreconditionError("the model was stuck"));
  }
}

void ServedModels::DropIdle() {
  std::vector<std::shared_ptr<Entry>> idle;
  const absl::Time now = absl::Now();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      const Entry& entry = *it->second;
      // What loads may need this thread, so that it cannot be waited for here.
      if (entry.users == 0 && entry.loading == nullptr &&
          now - entry.last_used > options_.idle) {
        idle.push_back(std::move(it->second));
        it = entries_.erase(it);
      } else {
        ++it;
      }
    }
    for (auto it = allowed_.begin(); it != allowed_.end();) {
      it = it->second.until < now ? allowed_.erase(it) : std::next(it);
    }
  }
  for (const auto& entry : idle) {
    LOG(INFO) << "model unloaded name=" << entry->name;
  }
}

absl::StatusOr<GrantedModel> ServedModels::Allow(const std::string& name,
                                                 int64_t bytes,
                                                 const Caller& caller) {
  const std::string key = absl::StrCat(Sha256Hex(caller.ticket), " ", name);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = allowed_.find(key);
    if (found != allowed_.end() && found->second.until > absl::Now()) {
      return found->second;
    }
  }
  // Each check takes a thread, and the caller is not known yet.
  ASSIGN_OR_RETURN(const CallBudget::Share share, asking_.Take(bytes));
  ASSIGN_OR_RETURN(
      GrantedModel granted,
      AskForModel(channels_, name, caller.ticket,
                  std::min(caller.deadline, absl::Now() + kAskTimeout),
                  caller.gone));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (allowed_.size() >= kMostAllowed) allowed_.clear();
  granted.until = std::min(granted.until, absl::Now() + options_.allowed_for);
  allowed_[key] = granted;
  return granted;
}

absl::StatusOr<std::shared_ptr<ServedModels::Entry>> ServedModels::FindOrAdd(
    const std::string& name) {
  // Destroyed after the lock is released.
  std::shared_ptr<Entry> out;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Entry>& entry = entries_[name];
  if (entry == nullptr) {
    entry = std::make_shared<Entry>();
    entry->name = name;
    entry->folder = absl::StrCat(options_.folder, "/", ++made_);
    if (static_cast<int>(entries_.size()) > options_.most_models) {
      auto oldest = entries_.end();
      for (auto it = entries_.begin(); it != entries_.end(); ++it) {
        if (it->second->users > 0 || it->first == name) continue;
        if (oldest == entries_.end() ||
            it->second->last_used < oldest->second->last_used) {
          oldest = it;
        }
      }
      if (oldest == entries_.end()) {
        entries_.erase(name);
        return absl::ResourceExhaustedError(
            absl::StrCat(options_.most_models,
                         " other models are in use here: try again, or "
                         "another worker"));
      }
      LOG(INFO) << "model unloaded name=" << oldest->first;
      out = std::move(oldest->second);
      entries_.erase(oldest);
    }
  }
  ++entries_[name]->users;
  return entries_[name];
}

void ServedModels::Return(const std::shared_ptr<Entry>& entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  --entry->users;
  entry->last_used = absl::Now();
}

std::shared_ptr<ServedModels::Loading> ServedModels::Begin(
    const GrantedModel& granted, Entry* entry) {
  const auto loading = std::make_shared<Loading>();
  // The last attempt's thread has ended, or is about to.
  if (entry->loader.joinable()) entry->loader.join();
  entry->loader = std::thread([this, granted, entry, mine = loading,
                               old = std::move(entry->ready)]() mutable {
    // Waits for the old process's end, unless others hold it.
    old.reset();
    const absl::Status status = Start(granted, *entry, mine.get());
    if (!status.ok()) {
      LOG(WARNING) << "model not ready name=" << entry->name << " " << status;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    mine->status = status;
    mine->done = true;
    entry->loading = nullptr;
    if (status.ok()) {
      // Callers who have left do not make it an idle one.
      entry->last_used = absl::Now();
      // Moved, so that this thread never is the last to hold a process: the
      // next attempt waits for the thread, and not for the process's end.
      entry->ready = std::move(mine);
    }
    changed_.notify_all();
  });
  entry->loading = loading;
  return loading;
}

absl::Status ServedModels::Start(const GrantedModel& granted,
                                 const Entry& entry, Loading* loading) {
  const std::function<bool()> given_up = [&] {
    return entry.evicted || stopping_;
  };
  RETURN_IF_ERROR(FetchModel(channels_, granted, options_.max_file_bytes,
                             entry.folder, absl::Now() + options_.fetch_timeout,
                             given_up));
  std::vector<std::string> command = {
      options_.trainer, "--serve", absl::StrCat("--model=", entry.folder),
      absl::StrCat("--threads=", options_.threads)};
  if (!options_.cache_dir.empty()) {
    command.push_back(absl::StrCat("--cache-dir=", options_.cache_dir));
  }
  ChildConfinement confinement;
  if (options_.user) confinement.user = &*options_.user;
  confinement.memory_bytes = options_.max_memory_bytes;
  absl::StatusOr<std::unique_ptr<ModelChild>> child;
  RunOnKeeper([&] {
    child = ModelChild::Start(command, options_.environment, confinement,
                              &stopping_);
  });
  RETURN_IF_ERROR(child.status());
  ASSIGN_OR_RETURN(
      const std::string line,
      (*child)->Receive(absl::Now() + options_.load_timeout, given_up));
  google::protobuf::util::JsonParseOptions lenient;
  lenient.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(line, &loading->served,
                                                   lenient)
           .ok()) {
    return absl::InternalError("comera-trainer does not tell its model");
  }
  loading->served.set_name(entry.name);
  loading->version = VersionOf(granted.model);
  LOG(INFO) << "model loaded name=" << entry.name;
  loading->calls = std::make_shared<ChildCalls>(
      *std::move(child), loading->served.max_generations());
  return absl::OkStatus();
}

absl::Status ServedModels::Await(const Loading& loading, const Caller& caller) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!loading.done) {
    const absl::Duration left = caller.deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("the model is not ready in time");
    }
    lock.unlock();
    const bool gone = caller.gone();
    lock.lock();
    if (gone) return absl::CancelledError("the caller has gone");
    if (loading.done) break;
    changed_.wait_for(lock,
                      absl::ToChronoNanoseconds(std::min(left, kLookInterval)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ChildCalls>> ServedModels::Prepare(
    const GrantedModel& granted, const Caller& caller, Entry* entry,
    v1::ServedModel* served, bool* ran) {
  std::shared_ptr<Loading> mine;
  while (true) {
    if (stopping_) return absl::CancelledError("the worker ends");
    std::shared_ptr<Loading> loading;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (entry->loading == nullptr) {
        const auto& ready = entry->ready;
        *ran = ready != nullptr;
        if (ready != nullptr && ready->version != VersionOf(granted.model)) {
          ready->calls->End(
              absl::UnavailableError("the model has changed: try again"));
        }
        if (ready != nullptr && ready->calls->status().ok()) {
          *served = ready->served;
          return ready->calls;
        }
        mine = Begin(granted, entry);
      }
      loading = entry->loading;
    }
    RETURN_IF_ERROR(Await(*loading, caller));
    if (loading != mine) continue;
    RETURN_IF_ERROR(mine->status);
    *served = mine->served;
    return mine->calls;
  }
}

void ServedModels::Discard(const std::shared_ptr<ChildCalls>& calls,
                           Entry* entry) {
  // Destroyed after the lock is released.
  std::shared_ptr<Loading> out;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (entry->ready != nullptr && entry->ready->calls == calls) {
    out = std::move(entry->ready);
  }
}

absl::Status ServedModels::WithModel(
    const std::string& name, int64_t bytes, const Caller& caller,
    const std::function<absl::Status(const v1::ServedModel&, ChildCalls*)>& use,
    const std::function<bool()>& again) {
  if (!ParseArtifactName(name)) {
    return absl::InvalidArgumentError(
        "name: must be jobs/{job}/models/{model}");
  }
  if (stopping_) return absl::UnavailableError("the worker ends: ask another");
  ASSIGN_OR_RETURN(const GrantedModel granted, Allow(name, bytes, caller));
  ASSIGN_OR_RETURN(const CallBudget::Share share, calls_.Take(bytes));
  ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, FindOrAdd(name));
  absl::Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {
    bool ran = false;
    v1::ServedModel served;
    const auto calls = Prepare(granted, caller, entry.get(), &served, &ran);
    status = calls.status();
    if (!status.ok()) break;
    status = use(served, calls->get());
    if (status.ok()) break;
    // A caller that gives up early does not cost the others their model: an
    // answer that comes later is dropped.
    const absl::Status ended = (*calls)->status();
    if (ended.ok()) break;
    LOG(WARNING) << "model failed name=" << name << " " << ended;
    Discard(*calls, entry.get());
    // A model that had answered before may do so again.
    if (!absl::IsFailedPrecondition(status) || !ran || !again()) break;
  }
  Return(entry);
  if (stopping_ && absl::IsCancelled(status)) {
    return absl::UnavailableError("the worker ends: ask another");
  }
  return status;
}

absl::StatusOr<v1::ServedModel> ServedModels::Load(
    const std::string& name, const std::string& ticket, absl::Time deadline,
    const std::function<bool()>& gone) {
  v1::ServedModel result;
  RETURN_IF_ERROR(WithModel(name, /*bytes=*/0, {ticket, deadline, gone},
                            [&](const v1::ServedModel& served, ChildCalls*) {
                              result = served;
                              return absl::OkStatus();
                            }));
  return result;
}

absl::StatusOr<v1::PredictResponse> ServedModels::Predict(
    const v1::PredictRequest& request, const std::string& ticket,
    absl::Time deadline, const std::function<bool()>& gone) {
  if (request.has_generate() || request.cancel() != 0) {
    return absl::InvalidArgumentError(
        "generate, cancel: the rpc Generate does this");
  }
  v1::PredictResponse response;
  RETURN_IF_ERROR(WithModel(
      request.name(), static_cast<int64_t>(request.SpaceUsedLong()),
      {ticket, deadline, gone},
      [&](const v1::ServedModel&, ChildCalls* calls) -> absl::Status {
        ASSIGN_OR_RETURN(response, calls->Predict(request, deadline, gone));
        return absl::OkStatus();
      }));
  return response;
}

absl::Status ServedModels::Generate(
    const v1::GenerateRequest& request, const std::string& ticket,
    absl::Time deadline, const std::function<bool()>& gone,
    const std::function<bool(const v1::GenerateResponse&)>& write) {
  bool began = false;
  return WithModel(
      request.name(), static_cast<int64_t>(request.SpaceUsedLong()),
      {ticket, deadline, gone},
      [&](const v1::ServedModel&, ChildCalls* calls) {
        return calls->Generate(request, deadline, gone,
                               [&](const v1::GenerateResponse& piece) {
                                 began = true;
                                 return write(piece);
                               });
      },
      // Another text may begin otherwise.
      [&] { return !began; });
}

absl::StatusOr<std::vector<ListedModel>> ServedModels::List(
    const std::string& ticket, absl::Time deadline,
    const std::function<bool()>& gone) {
  ASSIGN_OR_RETURN(const CallBudget::Share share, asking_.Take(/*bytes=*/0));
  ASSIGN_OR_RETURN(
      const auto models,
      AskForModels(channels_, ticket,
                   std::min(deadline, absl::Now() + kAskTimeout), gone));
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<ListedModel> listed;
  for (const v1::Model& model : models) {
    const auto ids = ParseArtifactName(model.name());
    // The early stage is not a model but a state to continue from.
    if (!ids || ids->second == kEarlyStageArtifact) continue;
    const auto found = entries_.find(model.name());
    listed.push_back(
        {model.name(), model.user(),
         absl::FromUnixSeconds(model.artifact().create_time().seconds()),
         found != entries_.end() && found->second->ready != nullptr});
  }
  return listed;
}

}  // namespace comera::worker
