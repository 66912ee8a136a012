#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_MAKE_WORD_EMBEDDING_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_MAKE_WORD_EMBEDDING_H_

#include <cstdint>
#include <memory>
#include <string>

#include "worker/trainer/model/embedding/word_embedding.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Makes the embedding layer `key` of the configuration in the form named there,
// for at most max_ids ids in one SetIds.
std::unique_ptr<WordEmbedding> MakeWordEmbedding(const Plan& plan,
                                                 const std::string& key,
                                                 int64_t max_ids);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_MAKE_WORD_EMBEDDING_H_
