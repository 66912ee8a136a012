// Tokenises sources into a folder of token shards, going on where an earlier
// preparation was interrupted.
#include "worker/trainer/data/prepare/prepare.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/files.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/trainer/data/prepare/parallel_encoder.h"
#include "worker/trainer/data/prepare/prepare_state.h"
#include "worker/trainer/data/prepare/prepare_tokenizer.h"
#include "worker/trainer/data/prepare/seen_texts.h"
#include "worker/trainer/data/prepare/shard_folder.h"
#include "worker/trainer/data/prepare/source_list.h"
#include "worker/trainer/data/prepare/tokenizer_swap.h"
#include "worker/trainer/data/shards/shard_file.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/data/tokenizer/tokenizer_digest.h"

namespace comera::trainer {
namespace {

// A batch is closed with so much text or so many documents.
constexpr size_t kBatchBytes = 1 << 20;
constexpr size_t kBatchDocuments = 4096;
// Text that waits for its tokens or for the shards before it; one document may
// be larger.
constexpr size_t kWaitingBytes = 48 << 20;
constexpr int kMaxThreads = 1024;

// Everything but the tokenizer's contents and the sources' that the shards are
// a function of.
std::string MadeFrom(const PrepareOptions& options,
                     const std::vector<SourceFile>& sources) {
  const DocumentFormat& format = options.reading.format;
  std::string text = absl::StrCat(
      "prepare 1\n", format.separator.size(), " ", format.separator, "\n",
      format.field.size(), " ", format.field, "\n", format.max_document_bytes,
      " ", static_cast<int>(options.reading.standard_input), " ",
      options.deduplicate, " ", options.shard_tokens, "\n");
  if (options.tokenizer.empty()) {
    absl::StrAppend(&text, "trained ", options.train.kind(), " ",
                    options.train.train_vocabulary_size(), " ",
                    options.max_training_bytes, "\n");
  }
  for (const SourceFile& source : sources) {
    absl::StrAppend(&text, source.path.size(), " ", source.path, "\n");
  }
  return Sha256Hex(text);
}

absl::Status Check(const PrepareOptions& options) {
  if (options.to.empty()) {
    return absl::InvalidArgumentError("to: which folder?");
  }
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: 1 to ", kMaxThreads));
  }
  if (options.reading.max_bad_rows < 0) {
    return absl::InvalidArgumentError("max_bad_rows: below 0");
  }
  if (options.reading.format.separator.find_first_of("\r\n") !=
      std::string::npos) {
    return absl::InvalidArgumentError("separator: holds a line end");
  }
  if (options.reading.format.field.empty()) {
    return absl::InvalidArgumentError("field: empty");
  }
  return absl::OkStatus();
}

// One call of PrepareShards.
class Preparation {
 public:
  Preparation(const PrepareOptions& options, std::vector<SourceFile> sources,
              const ShardFolder& folder)
      : options_(options),
        sources_(std::move(sources)),
        folder_(folder),
        swap_(folder.path()),
        made_from_(MadeFrom(options, sources_)),
        stream_(&sources_, options.reading) {
    for (const SourceFile& source : sources_) {
      progress_.total_bytes += source.size_bytes;
    }
  }

  absl::StatusOr<PrepareResult> Run() {
    if (trains() && standard_input()) {
      return absl::InvalidArgumentError(
          "-: standard input is read only once, so a vocabulary cannot be "
          "trained on it; --tokenizer names one");
    }
    ASSIGN_OR_RETURN(const bool complete, FindEarlier());
    if (complete) return std::move(result_);
    RETURN_IF_ERROR(MakeTokenizer());
    RETURN_IF_ERROR(KeepShards());
    RETURN_IF_ERROR(Tokenise());
    RETURN_IF_ERROR(CheckSources());
    RETURN_IF_ERROR(Before(PrepareStage::kIndex));
    RETURN_IF_ERROR(writer_->Finish(stream_.skipped_rows(), duplicates_));
    RETURN_IF_ERROR(Before(PrepareStage::kCleanUp));
    RETURN_IF_ERROR(folder_.RemoveState());
    RETURN_IF_ERROR(folder_.RemoveShardsFrom(writer_->index().shards.size()));
    result_.index = writer_->index();
    result_.skipped = stream_.skipped_summary();
    return std::move(result_);
  }

 private:
  absl::Status KeepGoing() const {
    return options_.keep_going ? options_.keep_going() : absl::OkStatus();
  }
  absl::Status Before(PrepareStage stage) const {
    RETURN_IF_ERROR(KeepGoing());
    return options_.before ? options_.before(stage) : absl::OkStatus();
  }
  void Report(const std::string& what) {
    if (!options_.on_progress) return;
    progress_.what = what;
    progress_.done_bytes = stream_.bytes_read();
    progress_.skipped_rows = stream_.skipped_rows();
    progress_.duplicates = duplicates_;
    if (writer_ != nullptr) {
      progress_.documents = writer_->documents();
      progress_.tokens = writer_->tokens();
    }
    options_.on_progress(progress_);
  }
  bool trains() const { return options_.tokenizer.empty(); }
  bool standard_input() const { return sources_[0].path == kStandardInput; }

  absl::Status Refuse(absl::string_view what) const {
    return absl::AlreadyExistsError(absl::StrCat(
        PrintablePath(folder_.path()), ": ", what, "; --force replaces it"));
  }

  // Looks at what the folder holds; true: the very shards that are wanted. With
  // `force` what would be refused is removed.
  absl::StatusOr<bool> FindEarlier() {
    if (!trains()) {
      // It may lie in the folder itself.
      RETURN_IF_ERROR(swap_.Recover());
      ASSIGN_OR_RETURN(tokenizer_, OpenTokenizerAt(options_.tokenizer));
      ASSIGN_OR_RETURN(given_digest_, TokenizerDigest(*tokenizer_));
    }
    if (!IsClearing()) {
      absl::StatusOr<bool> found = LookIntoFolder();
      if (!options_.force || !absl::IsAlreadyExists(found.status())) {
        return found;
      }
    }
    // What is wrong with the sources is to be known while all is still there.
    if (trains()) {
      ASSIGN_OR_RETURN(tokenizer_, TrainedAnew());
    }
    RETURN_IF_ERROR(Clear());
    return false;
  }

  // Whether this very command was interrupted while it removed what the folder
  // held.
  bool IsClearing() const {
    const absl::StatusOr<PrepareState> state = LoadPrepareState(folder_.path());
    if (!state.ok() || !state->clearing || state->made_from != made_from_ ||
        state->tokenizer_digest != given_digest_) {
      return false;
    }
    // Another text may come through standard input this time.
    return !standard_input() ||
           absl::IsNotFound(LoadShardIndex(folder_.path()).status());
  }

  // Removes what the folder holds but for the tokenizer: that is replaced when
  // the new one is there, which may be the same.
  absl::Status Clear() {
    earlier_ = PrepareState();
    PrepareState clearing;
    clearing.made_from = made_from_;
    clearing.tokenizer_digest = given_digest_;
    clearing.clearing = true;
    // From here on the same command goes on, whatever interrupts it.
    RETURN_IF_ERROR(Before(PrepareStage::kClear));
    RETURN_IF_ERROR(SavePrepareState(clearing, folder_.path()));
    // Without the index the rest is no longer taken for whole.
    RETURN_IF_ERROR(Before(PrepareStage::kClear));
    RETURN_IF_ERROR(folder_.RemoveIndex());
    RETURN_IF_ERROR(Before(PrepareStage::kClear));
    return folder_.RemoveShardsFrom(0);
  }

  absl::StatusOr<bool> LookIntoFolder() {
    const absl::StatusOr<ShardIndex> index = LoadShardIndex(folder_.path());
    if (index.ok()) return IsComplete(*index);
    if (!absl::IsNotFound(index.status())) {
      return Refuse(index.status().message());
    }
    absl::StatusOr<PrepareState> state = LoadPrepareState(folder_.path());
    if (absl::IsNotFound(state.status())) {
      if (folder_.IsEmpty()) return false;
      return Refuse("not empty, and holds no token shards");
    }
    if (!state.ok()) return Refuse(state.status().message());
    if (state->made_from != made_from_) {
      return Refuse(
          "holds unfinished token shards of other sources or settings");
    }
    earlier_ = *std::move(state);
    return false;
  }

  absl::StatusOr<bool> IsComplete(const ShardIndex& index) {
    bool same = index.made_from == made_from_ && !standard_input() &&
                index.sources == StampsDigest(sources_);
    if (same && !trains()) same = given_digest_ == index.tokenizer_digest;
    if (!same) {
      return Refuse(
          "holds token shards of other sources, settings or another tokenizer");
    }
    const absl::Status whole = CheckFiles(index);
    if (!whole.ok()) return Refuse(whole.message());
    // An earlier preparation may have been interrupted while it cleaned up.
    RETURN_IF_ERROR(swap_.RemoveReplaced());
    RETURN_IF_ERROR(folder_.RemoveState());
    RETURN_IF_ERROR(folder_.RemoveShardsFrom(index.shards.size()));
    result_.index = index;
    result_.already_there = true;
    return true;
  }

  // Whether what the index tells is there, by sizes; those who train read it
  // whole.
  absl::Status CheckFiles(const ShardIndex& index) const {
    ASSIGN_OR_RETURN(const std::string digest,
                     SavedTokenizerDigest(swap_.path()));
    if (digest != index.tokenizer_digest) {
      return absl::DataLossError("its tokenizer is another one");
    }
    for (size_t i = 0; i < index.shards.size(); ++i) {
      RETURN_IF_ERROR(
          ShardFile::Open(absl::StrCat(folder_.path(), "/",
                                       ShardFileName(static_cast<int64_t>(i))),
                          index.shards[i], index.vocabulary_size,
                          /*keep_open=*/false)
              .status());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> TrainedAnew() {
    return TrainTokenizer(options_.train, sources_, options_.reading,
                          options_.max_training_bytes,
                          [this](const std::string& what) {
                            Report(what);
                            return KeepGoing();
                          });
  }

  // Puts the tokenizer into the folder.
  absl::Status MakeTokenizer() {
    state_.made_from = made_from_;
    for (const SourceFile& source : sources_) {
      state_.stamps.push_back(source.stamp);
    }
    if (trains()) state_.trained_on = StampsDigest(sources_);
    if (trains() && earlier_.trained_on == state_.trained_on) {
      const absl::StatusOr<std::string> digest =
          SavedTokenizerDigest(swap_.path());
      if (digest.ok() && *digest == earlier_.tokenizer_digest) {
        state_.tokenizer_digest = *digest;
        return LoadTokenizers();
      }
    }
    if (tokenizer_ == nullptr) {
      ASSIGN_OR_RETURN(tokenizer_, TrainedAnew());
    }
    ASSIGN_OR_RETURN(state_.tokenizer_digest, TokenizerDigest(*tokenizer_));
    const absl::StatusOr<std::string> there =
        SavedTokenizerDigest(swap_.path());
    const bool is_there = there.ok() && *there == state_.tokenizer_digest;
    if (state_.tokenizer_digest != earlier_.tokenizer_digest) {
      if (!trains() && !earlier_.tokenizer_digest.empty() && !options_.force) {
        return Refuse("holds unfinished token shards of another tokenizer");
      }
      earlier_.shards.clear();
    } else if (is_there) {
      return LoadTokenizers();
    }
    RETURN_IF_ERROR(Before(PrepareStage::kTokenizer));
    RETURN_IF_ERROR(SavePrepareState(state_, folder_.path()));
    if (!is_there) {
      RETURN_IF_ERROR(
          swap_.Replace(*tokenizer_, state_.tokenizer_digest,
                        [this] { return Before(PrepareStage::kTokenizer); }));
    }
    return LoadTokenizers();
  }

  // A tokenizer for each thread, as those who train will read it.
  absl::Status LoadTokenizers() {
    tokenizer_.reset();
    RETURN_IF_ERROR(swap_.RemoveReplaced());
    for (int i = 0; i < options_.threads; ++i) {
      Report("opening the tokenizer");
      ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                       LoadSavedTokenizer(swap_.path()));
      tokenizers_.push_back(std::move(tokenizer));
    }
    return absl::OkStatus();
  }

  // Takes over the shards whose sources, and those before them, are as they
  // were.
  absl::Status KeepShards() {
    ShardIndex index;
    index.made_from = made_from_;
    index.sources = StampsDigest(sources_);
    index.tokenizer_digest = state_.tokenizer_digest;
    index.vocabulary_size = tokenizers_[0]->vocabulary_size();
    writer_ = std::make_unique<ShardSetWriter>(folder_.path(), std::move(index),
                                               options_.shard_tokens);
    int64_t same = 0;
    while (same < static_cast<int64_t>(sources_.size()) &&
           same < static_cast<int64_t>(earlier_.stamps.size()) &&
           !sources_[same].stamp.empty() &&
           sources_[same].stamp == earlier_.stamps[same]) {
      ++same;
    }
    for (const PrepareState::Shard& shard : earlier_.shards) {
      if (shard.position.file >= same) break;
      Report("checking finished shards");
      RETURN_IF_ERROR(KeepGoing());
      if (const absl::Status kept = writer_->Keep(shard.entry); !kept.ok()) {
        LOG(WARNING) << "event=shard_made_anew status=" << kept;
        break;
      }
      state_.shards.push_back(shard);
    }
    result_.kept_shards = static_cast<int64_t>(state_.shards.size());
    return SavePrepareState(state_, folder_.path());
  }

  // Reads up to the end of the kept shards.
  absl::Status SkipKept() {
    if (state_.shards.empty()) return absl::OkStatus();
    const StreamPosition& behind = state_.shards.back().position;
    // Duplicates of the first documents may follow, so these are read again.
    if (!options_.deduplicate) {
      stream_.BeginWith(behind);
      duplicates_ = behind.duplicates;
    }
    std::string document;
    while (stream_.position().documents < behind.documents) {
      ASSIGN_OR_RETURN(const bool more, stream_.Next(&document));
      if (!more) {
        return absl::FailedPreconditionError(
            "a source has fewer documents than before, but the same time of "
            "change; remove the folder to prepare it anew");
      }
      if (options_.deduplicate && !seen_.Add(document)) ++duplicates_;
      if (stream_.position().documents % 1024 == 0) {
        Report("reading up to the finished shards");
        RETURN_IF_ERROR(KeepGoing());
      }
    }
    return absl::OkStatus();
  }

  // Reads documents until there are enough for a batch; null: there is none
  // left.
  absl::StatusOr<std::unique_ptr<EncodedBatch>> ReadBatch() {
    auto batch = std::make_unique<EncodedBatch>();
    std::string document;
    while (batch->text_bytes < kBatchBytes &&
           batch->texts.size() < kBatchDocuments) {
      ASSIGN_OR_RETURN(const bool more, stream_.Next(&document));
      if (!more) break;
      if (options_.deduplicate && !seen_.Add(document)) {
        ++duplicates_;
        // A long run of duplicates fills no batch.
        if (duplicates_ % 1024 == 0) {
          Report("tokenising");
          RETURN_IF_ERROR(KeepGoing());
        }
        continue;
      }
      batch->text_bytes += document.size();
      batch->texts.push_back(std::move(document));
      batch->positions.push_back(stream_.position());
      batch->positions.back().duplicates = duplicates_;
    }
    if (batch->texts.empty()) return std::unique_ptr<EncodedBatch>();
    return batch;
  }

  // Writes the documents of a batch, and finishes shards that they fill.
  absl::Status WriteBatch(const EncodedBatch& batch) {
    size_t begin = 0;
    for (size_t i = 0; i < batch.ends.size(); ++i) {
      const size_t end = batch.ends[i];
      if (end > begin) {
        RETURN_IF_ERROR(writer_->Add(
            absl::MakeConstSpan(batch.tokens).subspan(begin, end - begin),
            static_cast<int64_t>(batch.texts[i].size())));
      }
      begin = end;
      if (!writer_->shard_is_full()) continue;
      RETURN_IF_ERROR(Before(PrepareStage::kShard));
      RETURN_IF_ERROR(writer_->FinishShard());
      state_.shards.push_back(
          {writer_->index().shards.back(), batch.positions[i]});
      RETURN_IF_ERROR(Before(PrepareStage::kState));
      RETURN_IF_ERROR(SavePrepareState(state_, folder_.path()));
    }
    return absl::OkStatus();
  }

  absl::Status Tokenise() {
    RETURN_IF_ERROR(SkipKept());
    ParallelEncoder encoder(std::move(tokenizers_));
    const size_t most = 2 * static_cast<size_t>(options_.threads) + 1;
    while (true) {
      RETURN_IF_ERROR(KeepGoing());
      ASSIGN_OR_RETURN(std::unique_ptr<EncodedBatch> batch, ReadBatch());
      const bool more = batch != nullptr;
      if (more) encoder.Push(std::move(batch));
      while (encoder.batches() > 0 && (!more || encoder.batches() > most ||
                                       encoder.text_bytes() > kWaitingBytes)) {
        RETURN_IF_ERROR(WriteBatch(*encoder.Pop()));
        RETURN_IF_ERROR(KeepGoing());
        Report("tokenising");
      }
      if (!more) break;
    }
    if (writer_->shard_is_empty()) return absl::OkStatus();
    RETURN_IF_ERROR(Before(PrepareStage::kShard));
    return writer_->FinishShard();
  }

  absl::Status CheckSources() {
    if (writer_->documents() == 0) {
      return absl::DataLossError("the sources hold no document with a token");
    }
    if (standard_input()) return absl::OkStatus();
    for (const SourceFile& source : sources_) {
      ASSIGN_OR_RETURN(const std::vector<SourceFile> now,
                       ListSources({source.path}));
      if (now.size() != 1 || now[0].stamp != source.stamp) {
        return absl::FailedPreconditionError(
            absl::StrCat(PrintablePath(source.path),
                         ": changed while it was read; prepare anew"));
      }
    }
    return absl::OkStatus();
  }

  const PrepareOptions& options_;
  const std::vector<SourceFile> sources_;
  const ShardFolder& folder_;
  const TokenizerSwap swap_;
  const std::string made_from_;
  // What an interrupted preparation left; what this one has done.
  PrepareState earlier_, state_;
  // The one that was given, or has been trained; null: neither yet.
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string given_digest_;  // "": one is trained
  std::vector<std::unique_ptr<Tokenizer>> tokenizers_;
  std::unique_ptr<ShardSetWriter> writer_;
  DocumentStream stream_;
  int64_t duplicates_ = 0;
  SeenTexts seen_;
  PrepareProgress progress_;
  PrepareResult result_;
};

}  // namespace

absl::StatusOr<PrepareResult> PrepareShards(const PrepareOptions& options) {
  RETURN_IF_ERROR(Check(options));
  ASSIGN_OR_RETURN(std::vector<SourceFile> sources,
                   ListSources(options.sources));
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardFolder> folder,
                   ShardFolder::Lock(options.to));
  return Preparation(options, std::move(sources), *folder).Run();
}

}  // namespace comera::trainer
