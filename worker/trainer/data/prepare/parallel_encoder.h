#ifndef COMERA_WORKER_TRAINER_DATA_PREPARE_PARALLEL_ENCODER_H_
#define COMERA_WORKER_TRAINER_DATA_PREPARE_PARALLEL_ENCODER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "worker/trainer/data/prepare/document_stream.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Documents that one thread tokenises together.
struct EncodedBatch {
  std::vector<std::string> texts;
  std::vector<StreamPosition> positions;  // per text
  size_t text_bytes = 0;                  // all together

  // Filled by the encoder: the tokens of all texts, each followed by the end of
  // text if the tokenizer has one, and where each text's tokens end. A text
  // without any token has none at all.
  std::vector<int32_t> tokens;
  std::vector<size_t> ends;  // per text
};

// Tokenises batches on several threads and gives them back in the order in
// which they came, so that the result is that of one thread.
//
// Life cycle: Push and Pop from one thread; the destructor drops what was not
// popped and joins the threads.
class ParallelEncoder {
 public:
  // A tokenizer per thread, at least one, all alike.
  explicit ParallelEncoder(std::vector<std::unique_ptr<Tokenizer>> tokenizers);
  ~ParallelEncoder();
  ParallelEncoder(const ParallelEncoder&) = delete;
  ParallelEncoder& operator=(const ParallelEncoder&) = delete;

  void Push(std::unique_ptr<EncodedBatch> batch);
  // Waits for the oldest batch; there is one.
  std::unique_ptr<EncodedBatch> Pop();

  // Batches that were pushed and not popped, and the bytes of their texts.
  size_t batches() const { return batches_.size(); }
  size_t text_bytes() const { return text_bytes_; }

 private:
  struct Task {
    std::unique_ptr<EncodedBatch> batch;
    bool done = false;
  };
  void Work(Tokenizer* tokenizer);

  const std::vector<std::unique_ptr<Tokenizer>> tokenizers_;
  // Owned by the thread that pushes; its tasks' fields are guarded by mutex_
  // but for a batch that is being tokenised.
  std::deque<std::unique_ptr<Task>> batches_;
  size_t text_bytes_ = 0;
  std::mutex mutex_;
  // Told when a task waits or is done, and at the end.
  std::condition_variable changed_;
  std::deque<Task*> waiting_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_PREPARE_PARALLEL_ENCODER_H_
