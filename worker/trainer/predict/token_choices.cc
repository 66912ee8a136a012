// Tells the most probable tokens of a place.
#include "worker/trainer/predict/token_choices.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "worker/trainer/predict/softmax.h"

namespace comera::trainer {
namespace {

constexpr int kDefaultTopK = 5;

}  // namespace

void FillChoices(const v1::PredictRequest& request,
                 absl::Span<const float> logits, const Tokenizer& tokenizer,
                 v1::FilledMask* mask) {
  const int k =
      std::min<int>(request.top_k() == 0 ? kDefaultTopK : request.top_k(),
                    static_cast<int>(logits.size()));
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  // Equal scores keep their order, so that answers do not depend on the
  // library.
  std::partial_sort(
      order.begin(), order.begin() + k, order.end(), [&](int32_t a, int32_t b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
      });
  const double total = LogSumExp(logits);
  for (int i = 0; i < k; ++i) {
    v1::TokenChoice* choice = mask->add_choices();
    choice->set_token(tokenizer.Token(order[i]));
    choice->set_id(order[i]);
    choice->set_probability(
        static_cast<float>(std::exp(logits[order[i]] - total)));
  }
  if (!request.logits()) return;
  for (const float logit : logits) mask->add_logits(logit);
}

}  // namespace comera::trainer
