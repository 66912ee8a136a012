// Shares a model's steps among texts.
#include "worker/trainer/generate/generator.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/generate/generation_request.h"

namespace comera::trainer {

Generator::Generator(const Options& options,
                     std::unique_ptr<CachedDecoder> decoder,
                     Tokenizer* tokenizer)
    : clock_(options.clock),
      tokenizer_(tokenizer),
      decoder_(std::move(decoder)),
      running_(decoder_->slots()) {}

absl::StatusOr<std::unique_ptr<Generator>> Generator::Create(
    const ModelConfig& config, const float* parameters, const Options& options,
    Tokenizer* tokenizer, kernels::Backend* backend) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<CachedDecoder> decoder,
      CachedDecoder::Create(config, parameters, options.decoder, backend));
  return absl::WrapUnique(
      new Generator(options, std::move(decoder), tokenizer));
}

bool Generator::Has(int64_t number) const {
  const auto has_number = [&](const Slot& text) {
    return text != nullptr && text->number() == number;
  };
  return std::any_of(running_.begin(), running_.end(), has_number) ||
         std::any_of(waiting_.begin(), waiting_.end(), has_number);
}

absl::Status Generator::Start(int64_t number,
                              const v1::GenerateRequest& request) {
  if (Has(number)) {
    return absl::InvalidArgumentError(
        absl::StrCat("number: ", number, " is in use"));
  }
  if (static_cast<int64_t>(waiting_.size()) >= kMaxWaiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxWaiting, " texts wait"));
  }
  ASSIGN_OR_RETURN(
      GenerationRequest checked,
      CheckGenerateRequest(request, decoder_->length(), tokenizer_));
  waiting_.push_back(std::make_unique<Generation>(number, std::move(checked),
                                                  decoder_->length(),
                                                  tokenizer_, clock_->Now()));
  FillSlots();
  return absl::OkStatus();
}

void Generator::FillSlots() {
  for (size_t slot = 0; slot < running_.size() && !waiting_.empty(); ++slot) {
    if (running_[slot] != nullptr) continue;
    running_[slot] = std::move(waiting_.front());
    waiting_.pop_front();
    order_.push_back(static_cast<int64_t>(slot));
  }
}

void Generator::End(int64_t slot) {
  running_[slot] = nullptr;
  order_.erase(std::find(order_.begin(), order_.end(), slot));
}

void Generator::Cancel(int64_t number) {
  for (size_t slot = 0; slot < running_.size(); ++slot) {
    if (running_[slot] == nullptr || running_[slot]->number() != number) {
      continue;
    }
    End(static_cast<int64_t>(slot));
    FillSlots();
    return;
  }
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                [&](const std::unique_ptr<Generation>& text) {
                                  return text->number() == number;
                                }),
                 waiting_.end());
}

void Generator::CollectTokens() {
  tokens_.clear();
  new_slots_.clear();
  for (const int64_t slot : order_) {
    Generation& text = *running_[slot];
    if (text.unseen() == 1) {
      text.AppendUnseen(slot, 1, &tokens_);
    } else {
      new_slots_.push_back(slot);
    }
  }
  AddPrompts();
}

void Generator::AddPrompts() {
  // From the shortest on, each takes its share of what those before it left.
  std::stable_sort(new_slots_.begin(), new_slots_.end(),
                   [&](int64_t a, int64_t b) {
                     return running_[a]->unseen() < running_[b]->unseen();
                   });
  int64_t room = decoder_->chunk();
  auto left = static_cast<int64_t>(new_slots_.size());
  for (const int64_t slot : new_slots_) {
    Generation& text = *running_[slot];
    const int64_t share = std::min(room / left, text.unseen());
    text.AppendUnseen(slot, share, &tokens_);
    room -= share;
    --left;
  }
}

absl::Status Generator::Step(std::vector<GeneratedPiece>* pieces) {
  if (idle()) return absl::OkStatus();
  CollectTokens();
  RETURN_IF_ERROR(decoder_->Step(tokens_, &logits_));
  const absl::Time now = clock_->Now();
  const int64_t width = decoder_->vocabulary();
  const float* logits = logits_.data();
  for (const NewToken& token : tokens_) {
    if (!token.logits) continue;
    Generation& text = *running_[token.slot];
    auto piece =
        text.Add(absl::MakeConstSpan(logits, static_cast<size_t>(width)), now);
    logits += width;
    bool ended = true;
    if (!piece.ok()) {
      pieces->push_back({text.number(), piece.status()});
    } else if (piece->has_value()) {
      ended = (*piece)->finish() != v1::GenerateResponse::FINISH_UNSPECIFIED;
      pieces->push_back({text.number(), **std::move(piece)});
    } else {
      ended = false;
    }
    if (ended) End(token.slot);
  }
  FillSlots();
  return absl::OkStatus();
}

}  // namespace comera::trainer
