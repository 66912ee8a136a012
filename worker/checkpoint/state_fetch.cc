// Puts a training state together from what its sources send, and verifies it.

#include "worker/checkpoint/state_fetch.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/backoff.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/files/open_folder.h"
#include "worker/files/plain_file.h"
#include "worker/report/growing_file.h"

namespace comera::worker {
namespace {

// How long an abandoned fetch may go on waiting.
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
// Larger files are taken for a mistake of whoever announces them.
constexpr int64_t kMaxBytes = int64_t{1} << 46;
constexpr size_t kMaxReasonBytes = 160;
constexpr size_t kMaxReasons = 12;

// Whether the source will never have the state.
bool IsFinal(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
         absl::IsPermissionDenied(status) || absl::IsUnimplemented(status) ||
         absl::IsFailedPrecondition(status) || absl::IsDataLoss(status);
}

// Other workers word a part of the reasons.
std::string Reason(const absl::Status& status) {
  std::string text(status.message());
  if (text.empty()) text = absl::StatusCodeToString(status.code());
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text.substr(0, kMaxReasonBytes);
}

// One fetch: the file that grows, and what is known of the sources.
class Fetch {
 public:
  Fetch(const StateFetchOptions& options,
        const std::vector<std::unique_ptr<StateSource>>& sources,
        GrowingFile file, const OnFetchProgress& on_progress,
        const std::atomic<bool>& abandoned)
      : options_(options),
        on_progress_(on_progress),
        abandoned_(abandoned),
        file_(std::move(file)),
        mixed_(file_.size() > 0),
        best_(file_.size()) {
    for (const auto& source : sources) {
      sources_.push_back({source.get(), /*dropped=*/false, /*why=*/""});
    }
  }

  absl::StatusOr<std::string> Run() {
    Backoff backoff(options_.min_backoff, options_.max_backoff);
    while (true) {
      const absl::Time before = progress_;
      for (Source& source : sources_) {
        if (source.dropped) continue;
        if (abandoned_) return absl::AbortedError("abandoned");
        ASSIGN_OR_RETURN(const bool done, Try(source));
        if (done) return source.source->name();
      }
      if (abandoned_) return absl::AbortedError("abandoned");
      const bool any_left =
          std::any_of(sources_.begin(), sources_.end(),
                      [](const Source& source) { return !source.dropped; });
      if (!any_left) {
        return any_damaged_ ? absl::DataLossError(Reasons())
                            : absl::NotFoundError(Reasons());
      }
      if (SteadyNow() - progress_ >= options_.start_wait) {
        return absl::DeadlineExceededError(Reasons());
      }
      if (progress_ != before) backoff.Reset();
      const absl::Time again = SteadyNow() + backoff.Next();
      while (!abandoned_ && SteadyNow() < again) {
        absl::SleepFor(std::min(kPollInterval, again - SteadyNow()));
      }
    }
  }

 private:
  struct Source {
    StateSource* source = nullptr;
    bool dropped = false;
    std::string why;
  };

  // Reads from one source and, if the file has come to its end, puts it in its
  // place. Returns whether that was done; an error is one of this machine.
  absl::StatusOr<bool> Try(Source& source) {
    if (file_.size() > 0 && owner_ != source.source) {
      if (!mixes_) {
        RETURN_IF_ERROR(BeginAnew());
      } else {
        mixed_ = true;
      }
    }
    if (file_.size() == 0) {
      owner_ = source.source;
      mixed_ = false;
    }
    absl::Status local, other;
    TransferLimits limits;
    limits.idle = options_.idle;
    limits.abandoned = &abandoned_;
    absl::Status status = source.source->Read(
        file_.size(), limits, [&](int64_t size, std::string_view data) {
          return Take(*source.source, size, data, &local, &other);
        });
    RETURN_IF_ERROR(local);
    if (!other.ok()) status = other;
    if (absl::IsOutOfRange(status)) {
      // What has come is of another file.
      RETURN_IF_ERROR(BeginAnew());
      StopMixing();
    }
    if (status.ok() && size_ > 0 && file_.size() < size_) {
      status = absl::UnavailableError("it ended early");
    }
    if (status.ok()) {
      status = Verify();
      if (absl::IsAborted(status)) return false;
      if (status.ok()) {
        RETURN_IF_ERROR(file_.Commit());
        return true;
      }
      // Only a copy that came from one source is surely damaged there.
      if (mixed_) {
        status = absl::UnavailableError("parts of several files");
        StopMixing();
      } else {
        CountAnew();
      }
      RETURN_IF_ERROR(BeginAnew());
    }
    source.dropped = IsFinal(status);
    any_damaged_ = any_damaged_ || absl::IsDataLoss(status);
    source.why = Reason(status);
    LOG(WARNING) << "training state not fetched from=\""
                 << source.source->name() << "\" bytes=" << file_.size()
                 << " again=" << !source.dropped << " " << status;
    return false;
  }

  // Takes a part. `local` gets an error of this machine, `other` one of the
  // source; both end the transfer.
  absl::Status Take(const StateSource& source, int64_t size,
                    std::string_view data, absl::Status* local,
                    absl::Status* other) {
    if (size < 0 || size > kMaxBytes) {
      return *other = absl::DataLossError(
                 absl::StrCat("it says that it has ", size, " bytes"));
    }
    if (size > 0 && size_ > 0 && size != size_) {
      // The next try takes all from one source.
      return *other = absl::OutOfRangeError("it has a file of another size");
    }
    if (size > 0) size_ = size;
    const int64_t most = size_ > 0 ? size_ : kMaxBytes;
    if (static_cast<int64_t>(data.size()) > most - file_.size()) {
      return *other = absl::DataLossError("more comes than the file has");
    }
    *local = file_.Append(data);
    RETURN_IF_ERROR(*local);
    if (file_.size() > best_) {
      best_ = file_.size();
      progress_ = SteadyNow();
    }
    if (on_progress_ && !data.empty()) {
      on_progress_(file_.size(), size_, source.name());
    }
    return absl::OkStatus();
  }

  // From now on all parts come from one source.
  void StopMixing() {
    if (mixes_) CountAnew();
    mixes_ = false;
  }

  // What has come was useless, and what comes again counts as progress. That
  // happens at most once for each source, so that no fetch goes on for ever.
  void CountAnew() {
    best_ = 0;
    progress_ = SteadyNow();
  }

  absl::Status BeginAnew() {
    size_ = 0;
    return file_.Reset();
  }

  // DataLoss: what has come is damaged. Aborted: abandoned.
  absl::Status Verify() const {
    ASSIGN_OR_RETURN(PlainFile contents, file_.Contents());
    const CheckpointFile whole(std::move(contents));
    const absl::Status status = whole.Verify(nullptr, [&](std::string_view) {
      if (on_progress_) {
        on_progress_(file_.size(), file_.size(), "the checksum");
      }
      return abandoned_ ? absl::AbortedError("abandoned") : absl::OkStatus();
    });
    return absl::IsAborted(status) || status.ok()
               ? status
               : absl::DataLossError(
                     absl::StrCat("damaged: ", status.message()));
  }

  std::string Reasons() const {
    std::string text;
    size_t told = 0;
    for (const Source& source : sources_) {
      if (told++ == kMaxReasons) {
        absl::StrAppend(&text, "; and ", sources_.size() - kMaxReasons,
                        " more");
        break;
      }
      absl::StrAppend(&text, text.empty() ? "" : "; ", source.source->name(),
                      ": ", source.why);
    }
    return text.empty() ? "nobody has it" : text;
  }

  const StateFetchOptions& options_;
  const OnFetchProgress& on_progress_;
  const std::atomic<bool>& abandoned_;
  std::vector<Source> sources_;
  GrowingFile file_;
  // The size of the whole; 0: unknown.
  int64_t size_ = 0;
  // Where the first byte has come from, and whether others came from elsewhere.
  const StateSource* owner_ = nullptr;
  bool mixed_;
  // Whether parts of several sources are put together. Two files of the same
  // state may differ, and then they are not.
  bool mixes_ = true;
  // Whether some source has a damaged copy.
  bool any_damaged_ = false;
  // The largest number of bytes so far, and when it was reached.
  int64_t best_;
  absl::Time progress_ = SteadyNow();
};

}  // namespace

absl::StatusOr<std::string> FetchState(
    const StateFetchOptions& options,
    const std::vector<std::unique_ptr<StateSource>>& sources,
    const PathBelow& path, const OnFetchProgress& on_progress,
    const std::atomic<bool>& abandoned) {
  // A fetch that was abandoned may take a moment to end.
  const absl::Time begun = SteadyNow();
  std::optional<GrowingFile> file;
  while (!file.has_value()) {
    ASSIGN_OR_RETURN(OpenFolder folder, OpenFolder::Make(path.Parent()));
    auto opened = GrowingFile::Open(std::move(folder), path.Name(),
                                    path.Name() + ".tmp.fetch");
    if (opened.ok()) {
      file.emplace(*std::move(opened));
    } else if (!absl::IsAborted(opened.status())) {
      return opened.status();
    } else if (abandoned || SteadyNow() - begun > options.start_wait) {
      return opened.status();
    } else {
      absl::SleepFor(kPollInterval);
    }
  }
  return Fetch(options, sources, *std::move(file), on_progress, abandoned)
      .Run();
}

}  // namespace comera::worker
