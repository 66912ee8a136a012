#include "worker/trainer/model/word_embedding.h"

#include "worker/trainer/model/dense_embedding.h"
#include "worker/trainer/model/layer_table.h"
#include "worker/trainer/model/ttm_embedding.h"

namespace comera::trainer {

std::unique_ptr<WordEmbedding> MakeWordEmbedding(const Plan& plan,
                                                 int64_t max_ids) {
  const FactorisableLayer layer = FactorisableLayers(*plan.config)[0];
  const Factorisation& f = plan.config->layers_by_name.at(layer.key);
  if (f.dense()) return std::make_unique<DenseEmbedding>(plan, layer.name);
  return std::make_unique<TtmEmbedding>(plan, layer.name, f);
}

}  // namespace comera::trainer
