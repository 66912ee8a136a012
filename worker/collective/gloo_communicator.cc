// Collectives over TCP, built from sends and receives.
#include "worker/collective/gloo_communicator.h"

#include <net/if.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "worker/collective/bfloat16.h"
#include "worker/collective/gloo_mesh.h"

namespace comera::collective {
namespace {

// The most values that are summed by halving and doubling, a measured figure
// (tests/bench:all_reduce).
constexpr size_t kMostHalved = size_t{1} << 18;

enum class Operation { kAllReduce, kBroadcast, kBarrier, kCompressed };

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(const GlooOptions& options, std::unique_ptr<GlooMesh> mesh)
      : options_(options), mesh_(std::move(mesh)) {}
  ~GlooCommunicator() override {
    if (mesh_ != nullptr && error_.ok() && !aborted_) mesh_->SayGoodbye();
  }

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }

  absl::Status AllReduce(absl::Span<float> values) override {
    return Run(Operation::kAllReduce, values.size(), 0,
               [&] { return Sum(values); });
  }

  absl::Status AllReduceCompressed(absl::Span<float> values,
                                   size_t exact_tail) override {
    const size_t rounded = values.size() - std::min(exact_tail, values.size());
    // The tail is exact on all members or on none.
    return Run(Operation::kCompressed, values.size(),
               static_cast<int>(values.size() - rounded),
               [&]() -> absl::Status {
                 RETURN_IF_ERROR(CompressedAllReduce(values.first(rounded)));
                 return Sum(values.subspan(rounded));
               });
  }

  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    if (error_.ok() && (root < 0 || root >= world_size())) {
      error_ = absl::InvalidArgumentError(absl::StrCat("no rank ", root));
    }
    return Run(Operation::kBroadcast, bytes.size(), root,
               [&] { return TreeBroadcast(bytes, root); });
  }

  absl::Status Barrier() override {
    return Run(Operation::kBarrier, 1, 0,
               [this] { return DisseminationBarrier(); });
  }

  void Abort() override {
    aborted_ = true;
    if (mesh_ != nullptr) mesh_->Break();
  }

  int64_t collectives_done() const override { return done_; }

 private:
  absl::Status Run(Operation operation, size_t size, int root,
                   const std::function<absl::Status()>& body) {
    if (!error_.ok()) return error_;
    tag_ = Tag(operation, size, root);
    ++started_;
    deadline_ = absl::Now() + options_.timeout;
    if (aborted_) {
      error_ = absl::AbortedError("Abort was called");
    } else if (size > 0 && world_size() > 1) {
      error_ = body();
      if (!error_.ok() && aborted_) {
        error_ = absl::AbortedError("Abort was called");
      }
    }
    if (error_.ok()) {
      ++done_;
    } else if (mesh_ != nullptr) {
      mesh_->Break();
    }
    return error_;
  }

  // Made of all that the members must agree on: with different tags the
  // messages of two members never meet, so a disagreement ends in a time-out
  // and no member writes beyond another's buffer.
  uint32_t Tag(Operation operation, size_t size, int root) const {
    uint64_t hash = 14695981039346656037u;  // FNV-1a.
    for (uint64_t value :
         {static_cast<uint64_t>(operation), static_cast<uint64_t>(size),
          static_cast<uint64_t>(root), static_cast<uint64_t>(started_)}) {
      for (int i = 0; i < 8; ++i, value >>= 8) {
        hash = (hash ^ (value & 255)) * 1099511628211u;
      }
    }
    return static_cast<uint32_t>(hash ^ (hash >> 32));
  }

  int Wrap(int rank) const {
    return (rank % world_size() + world_size()) % world_size();
  }

  // Part `index` of `values`, counted round the ring: one of as many as there
  // are members, of about equal size.
  template <typename T>
  absl::Span<T> Chunk(absl::Span<T> values, int index) const {
    const size_t ranks = world_size();
    const size_t i = Wrap(index);
    const size_t begin = values.size() * i / ranks;
    return values.subspan(begin, values.size() * (i + 1) / ranks - begin);
  }

  template <typename T>
  static absl::Span<char> Bytes(absl::Span<T> values) {
    return absl::Span<char>(reinterpret_cast<char*>(values.data()),
                            values.size() * sizeof(T));
  }

  absl::Status Exchange(int to, absl::Span<const char> out, int from,
                        absl::Span<char> in) {
    return mesh_->Exchange(tag_, {Wrap(to), out}, {Wrap(from), in}, deadline_);
  }

  // The way for this many values: halving and doubling takes fewer messages,
  // one after the other, than a ring; a ring sends fewer bytes where the number
  // of members is no power of two, and in pieces that fit caches.
  absl::Status Sum(absl::Span<float> values) {
    return values.size() <= kMostHalved ? HalvingDoublingAllReduce(values)
                                        : RingAllReduce(values);
  }

  // In round d (half of the members, a quarter, ..., 1) each member exchanges
  // half of what it still sums with the member whose rank differs in bit d, and
  // sums the other half; the same rounds backwards spread the sums. Members
  // beyond the largest power of two give their values to one below it first,
  // and get the sums last.
  absl::Status HalvingDoublingAllReduce(absl::Span<float> values) {
    int core = 1;
    while (core * 2 <= world_size()) core *= 2;
    const bool beyond = rank() >= core;
    const bool has_beyond = rank() + core < world_size();
    scratch_.resize(values.size());
    if (beyond) {
      RETURN_IF_ERROR(Exchange(rank() - core, Bytes(values), 0, {}));
      return Exchange(0, {}, rank() - core, Bytes(values));
    }
    const auto add = [&](int from, absl::Span<const char> out,
                         absl::Span<float> to) -> absl::Status {
      const auto got = absl::MakeSpan(scratch_).subspan(0, to.size());
      RETURN_IF_ERROR(Exchange(from, out, from, Bytes(got)));
      for (size_t i = 0; i < to.size(); ++i) to[i] += got[i];
      return absl::OkStatus();
    };
    if (has_beyond) RETURN_IF_ERROR(add(rank() + core, {}, values));
    // What this member sums, and in each round what it gives up.
    absl::Span<float> kept = values;
    std::vector<absl::Span<float>> given, keeps;
    for (int d = core / 2; d >= 1; d /= 2) {
      const size_t half = kept.size() / 2;
      const bool upper = (rank() & d) != 0;
      given.push_back(upper ? kept.first(half) : kept.subspan(half));
      kept = upper ? kept.subspan(half) : kept.first(half);
      keeps.push_back(kept);
      RETURN_IF_ERROR(add(rank() ^ d, Bytes(given.back()), kept));
    }
    for (int d = 1; d < core; d *= 2) {
      RETURN_IF_ERROR(Exchange(rank() ^ d, Bytes(keeps.back()), rank() ^ d,
                               Bytes(given.back())));
      keeps.pop_back();
      given.pop_back();
    }
    if (!has_beyond) return absl::OkStatus();
    return Exchange(rank() + core, Bytes(values), 0, {});
  }

  // Reduce-scatter, then all-gather: the sum of chunk c starts at member c and
  // goes round the ring, each member adding its part; the finished chunks go
  // round once more.
  absl::Status RingAllReduce(absl::Span<float> values) {
    const auto chunk = [&](int index) { return Chunk(values, index); };
    scratch_.resize(values.size() / world_size() + 1);
    for (int step = 0; step < world_size() - 1; ++step) {
      const absl::Span<float> mine = chunk(rank() - step - 1);
      const absl::Span<float> got =
          absl::MakeSpan(scratch_).subspan(0, mine.size());
      RETURN_IF_ERROR(Exchange(rank() + 1, Bytes(chunk(rank() - step)),
                               rank() - 1, Bytes(got)));
      for (size_t i = 0; i < mine.size(); ++i) mine[i] += got[i];
    }
    for (int step = 0; step < world_size() - 1; ++step) {
      RETURN_IF_ERROR(Exchange(rank() + 1, Bytes(chunk(rank() + 1 - step)),
                               rank() - 1, Bytes(chunk(rank() - step))));
    }
    return absl::OkStatus();
  }

  // Every member receives its chunk of all others' rounded values, sums them in
  // float32 and rounds the sum; the rounded sums go round the ring. A ring of
  // partial sums would round them at every member.
  absl::Status CompressedAllReduce(absl::Span<float> values) {
    rounded_.resize(values.size());
    std::transform(values.begin(), values.end(), rounded_.begin(), ToBfloat16);
    const auto chunk = [&](int index) {
      return Chunk(absl::MakeSpan(rounded_), index);
    };
    const absl::Span<uint16_t> own = chunk(rank());
    const absl::Span<float> sums = Chunk(values, rank());
    std::transform(own.begin(), own.end(), sums.begin(), FromBfloat16);
    received_.resize(own.size());
    for (int step = 1; step < world_size(); ++step) {
      RETURN_IF_ERROR(Exchange(rank() + step, Bytes(chunk(rank() + step)),
                               rank() - step,
                               Bytes(absl::MakeSpan(received_))));
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] += FromBfloat16(received_[i]);
      }
    }
    std::transform(sums.begin(), sums.end(), own.begin(), ToBfloat16);
    for (int step = 0; step < world_size() - 1; ++step) {
      RETURN_IF_ERROR(Exchange(rank() + 1, Bytes(chunk(rank() - step)),
                               rank() - 1, Bytes(chunk(rank() - step - 1))));
    }
    std::transform(rounded_.begin(), rounded_.end(), values.begin(),
                   FromBfloat16);
    return absl::OkStatus();
  }

  // Binomial tree over the members counted from the root: in round d those
  // below d pass the bytes on to those d further.
  absl::Status TreeBroadcast(absl::Span<char> bytes, int root) {
    const int place = Wrap(rank() - root);
    for (int d = 1; d < world_size(); d *= 2) {
      if (place < d && place + d < world_size()) {
        RETURN_IF_ERROR(Exchange(rank() + d, bytes, 0, {}));
      } else if (place >= d && place < 2 * d) {
        RETURN_IF_ERROR(Exchange(0, {}, rank() - d, bytes));
      }
    }
    return absl::OkStatus();
  }

  // After round d each member has heard, directly or not, of the 2d - 1 members
  // before it.
  absl::Status DisseminationBarrier() {
    for (int d = 1; d < world_size(); d *= 2) {
      const char out = 0;
      char in;
      RETURN_IF_ERROR(Exchange(rank() + d, absl::MakeConstSpan(&out, 1),
                               rank() - d, absl::MakeSpan(&in, 1)));
    }
    return absl::OkStatus();
  }

  const GlooOptions options_;
  const std::unique_ptr<GlooMesh> mesh_;  // Null for a gang of one.
  std::atomic<bool> aborted_{false};
  std::atomic<int64_t> done_{0};
  int64_t started_ = 0;
  uint32_t tag_ = 0;
  absl::Time deadline_;
  std::vector<float> scratch_;
  std::vector<uint16_t> rounded_, received_;  // bfloat16
  absl::Status error_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateGlooCommunicator(
    const GlooOptions& options, Rendezvous* rendezvous) {
  if (options.world_size < 1 || options.rank < 0 ||
      options.rank >= options.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " of ", options.world_size));
  }
  if (options.timeout < absl::Milliseconds(1) ||
      options.connect_timeout < absl::Milliseconds(1)) {
    return absl::InvalidArgumentError("time-outs must be at least 1 ms");
  }
  if (options.tls && options.tls->key.size() != GangTls::kKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls.key: ", options.tls->key.size(), " bytes, not ",
                     GangTls::kKeyBytes));
  }
  std::unique_ptr<GlooMesh> mesh;
  if (options.world_size > 1) {
    if (rendezvous == nullptr) {
      return absl::InvalidArgumentError("several ranks need a rendezvous");
    }
    if (!options.interface.empty() &&
        if_nametoindex(options.interface.c_str()) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("no network interface ", options.interface));
    }
    GlooMeshOptions mesh_options;
    mesh_options.rank = options.rank;
    mesh_options.world_size = options.world_size;
    mesh_options.host = options.host;
    mesh_options.interface = options.interface;
    mesh_options.tls = options.tls;
    mesh_options.connect_timeout = options.connect_timeout;
    ASSIGN_OR_RETURN(mesh, GlooMesh::Connect(mesh_options, rendezvous));
  }
  return std::make_unique<GlooCommunicator>(options, std::move(mesh));
}

}  // namespace comera::collective
