// Tokenises batches of documents on several threads, in order.
#include "worker/trainer/data/prepare/parallel_encoder.h"

#include <optional>
#include <utility>

namespace comera::trainer {
namespace {

void Encode(Tokenizer* tokenizer, EncodedBatch* batch) {
  const std::optional<int32_t> end_of_text = tokenizer->end_of_text();
  for (const std::string& text : batch->texts) {
    const size_t begin = batch->tokens.size();
    tokenizer->Encode(text, &batch->tokens);
    if (batch->tokens.size() > begin && end_of_text) {
      batch->tokens.push_back(*end_of_text);
    }
    batch->ends.push_back(batch->tokens.size());
  }
}

}  // namespace

ParallelEncoder::ParallelEncoder(
    std::vector<std::unique_ptr<Tokenizer>> tokenizers)
    : tokenizers_(std::move(tokenizers)) {
  for (const std::unique_ptr<Tokenizer>& tokenizer : tokenizers_) {
    threads_.emplace_back([this, &tokenizer] { Work(tokenizer.get()); });
  }
}

ParallelEncoder::~ParallelEncoder() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.clear();
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ParallelEncoder::Work(Tokenizer* tokenizer) {
  while (true) {
    Task* task = nullptr;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return ending_ || !waiting_.empty();
      });
      if (waiting_.empty()) return;
      task = waiting_.front();
      waiting_.pop_front();
    }
    Encode(tokenizer, task->batch.get());
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      task->done = true;
    }
    changed_.notify_all();
  }
}

void ParallelEncoder::Push(std::unique_ptr<EncodedBatch> batch) {
  text_bytes_ += batch->text_bytes;
  auto task = std::make_unique<Task>();
  task->batch = std::move(batch);
  batches_.push_back(std::move(task));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(batches_.back().get());
  }
  changed_.notify_all();
}

std::unique_ptr<EncodedBatch> ParallelEncoder::Pop() {
  const std::unique_ptr<Task> task = std::move(batches_.front());
  batches_.pop_front();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return task->done; });
  }
  text_bytes_ -= task->batch->text_bytes;
  return std::move(task->batch);
}

}  // namespace comera::trainer
