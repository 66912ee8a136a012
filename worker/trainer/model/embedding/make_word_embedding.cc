// Chooses the class of an embedding by its form in the configuration.
#include "worker/trainer/model/embedding/make_word_embedding.h"

#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/embedding/dense_embedding.h"
#include "worker/trainer/model/embedding/expanded_embedding.h"
#include "worker/trainer/model/embedding/ttm_embedding.h"

namespace comera::trainer {

std::unique_ptr<WordEmbedding> MakeWordEmbedding(const Plan& plan,
                                                 const std::string& key,
                                                 int64_t max_ids) {
  const Factorisation& f = plan.config->layers_by_name.at(key);
  for (const FactorisableLayer& layer : FactorisableLayers(*plan.config)) {
    if (layer.key != key) continue;
    if (f.dense()) {
      return std::make_unique<DenseEmbedding>(plan, layer.name, max_ids);
    }
    if (key == "embedding" && plan.table != nullptr) {
      return std::make_unique<ExpandedEmbedding>(plan, layer.name, max_ids);
    }
    return std::make_unique<TtmEmbedding>(plan, layer.name, f, max_ids);
  }
  return nullptr;
}

}  // namespace comera::trainer
