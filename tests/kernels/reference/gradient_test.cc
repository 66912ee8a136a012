// Backward of the reference against central differences of its forward.
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/interaction.h"
#include "kernels/reference/layer_norm.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/lookup.h"
#include "kernels/reference/objective.h"
#include "kernels/reference/pointwise.h"
#include "kernels/reference/rank_space_ffn.h"
#include "kernels/reference/rank_space_stream.h"
#include "tests/kernels/reference/gradient_check.h"

namespace comera::kernels::reference {
namespace {

// `from_output` tells whether the slope is found from y.
void CheckActivation(Activation f, bool from_output) {
  const DoubleMatrix weights = Random(3, 5, 1);
  const Inputs inputs = {Random(3, 5, 2)};
  DoubleMatrix y(3, 5), grad(3, 5);
  Activate(f, inputs[0], &y);
  ActivateBackward(f, from_output ? y : inputs[0], weights, &grad);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix out(3, 5);
                   Activate(f, in[0], &out);
                   return Weighted(out, weights);
                 },
                 {grad});
}

TEST(ReferenceGradientTest, Gelu) { CheckActivation(Activation::kGelu, false); }
TEST(ReferenceGradientTest, Silu) { CheckActivation(Activation::kSilu, false); }
TEST(ReferenceGradientTest, Tanh) { CheckActivation(Activation::kTanh, true); }
TEST(ReferenceGradientTest, Relu) { CheckActivation(Activation::kRelu, true); }
TEST(ReferenceGradientTest, GeluTanh) {
  CheckActivation(Activation::kGeluTanh, false);
}
TEST(ReferenceGradientTest, Identity) {
  CheckActivation(Activation::kIdentity, false);
  CheckActivation(Activation::kIdentity, true);
}

TEST(ReferenceGradientTest, PairwiseInteraction) {
  const DoubleMatrix weights = Random(2, 3 + 6, 1);
  const Inputs inputs = {Random(2, 4 * 3, 2)};
  DoubleMatrix grad(2, 4 * 3);
  PairwiseInteractionBackward(4, inputs[0], weights, &grad);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix out(2, 3 + 6);
                   PairwiseInteraction(4, in[0], &out);
                   return Weighted(out, weights);
                 },
                 {grad});
}

TEST(ReferenceGradientTest, SigmoidCrossEntropy) {
  const Inputs inputs = {Random(5, 1, 2)};
  DoubleMatrix labels(1, 5), grad(5, 1), totals(1, 3);
  labels.values = {0, 1, 1, 0, 1};
  SigmoidCrossEntropy(inputs[0], labels, &grad, &totals);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix sums(1, 3);
                   SigmoidCrossEntropy(in[0], labels, nullptr, &sums);
                   return sums[0];
                 },
                 {grad});
}

TEST(ReferenceGradientTest, Bias) {
  const DoubleMatrix weights = Random(4, 3, 1);
  DoubleMatrix grad(1, 3);
  BiasGradient(weights, &grad);
  CheckGradients({Random(1, 3, 2)},
                 [&](const Inputs& in) {
                   DoubleMatrix y(4, 3);
                   AddBias(in[0], &y);
                   return Weighted(y, weights);
                 },
                 {grad});
}

TEST(ReferenceGradientTest, FoldCore) {
  const double threshold = 0.1;
  const DoubleMatrix weights = Random(4, 6, 1);
  const Inputs inputs = {Random(4, 6, 2), Random(1, 6, 3)};
  DoubleMatrix grad_g(4, 6), grad_d(1, 6);
  FoldCoreBackward(inputs[0], inputs[1], threshold, weights, &grad_g, &grad_d);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix h(4, 6);
                   FoldCore(in[0], in[1], threshold, &h);
                   return Weighted(h, weights);
                 },
                 {grad_g, grad_d});
}

TEST(ReferenceGradientTest, TtmLookup) {
  PairLists pairs = {DoubleMatrix(1, 5), DoubleMatrix(1, 5),
                     DoubleMatrix(1, 5)};
  pairs.left.values = {0, 2, 1, 0, 1};
  pairs.out.values = {4, 0, 2, 1, 3};
  pairs.start.values = {0, 2, 2, 3, 5};
  for (bool right_blocks : {false, true}) {
    const TtmTables t = {2, 3, 2, 4, 3, 5, right_blocks};
    const DoubleMatrix weights = Random(5, 12, 1);
    const Inputs inputs = {Random(12, 5, 2), Random(20, 3, 3)};
    DoubleMatrix grad_left(12, 5), grad_right(20, 3);
    TtmLookupBackward(t, inputs[0], inputs[1], pairs, weights, &grad_left,
                      &grad_right);
    CheckGradients(inputs,
                   [&](const Inputs& in) {
                     DoubleMatrix out(5, 12);
                     TtmLookup(t, in[0], in[1], pairs, &out);
                     return Weighted(out, weights);
                   },
                   {grad_left, grad_right});
  }
}

TEST(ReferenceGradientTest, GatherIsUndoneByScatter) {
  DoubleMatrix rows(1, 4);
  rows.values = {2, 0, 2, 1};
  const DoubleMatrix weights = Random(4, 3, 1);
  DoubleMatrix grad(3, 3);
  ScatterAddRows(weights, rows, &grad);
  CheckGradients({Random(3, 3, 2)},
                 [&](const Inputs& in) {
                   DoubleMatrix out(4, 3);
                   GatherRows(in[0], rows, &out);
                   return Weighted(out, weights);
                 },
                 {grad});
}

// The gradient of a sum of runs is the same operation: each table row sums the
// runs that it went to.
TEST(ReferenceGradientTest, SumRows) {
  DoubleMatrix rows(1, 4), offsets(1, 4);
  rows.values = {2, 0, 2, 1};
  offsets.values = {0, 3, 3, 4};
  const DoubleMatrix weights = Random(3, 3, 1);
  DoubleMatrix runs(1, 4), starts(1, 4), grad(3, 3);
  runs.values = {0, 2, 0, 0};
  starts.values = {0, 1, 2, 4};
  SumRows(weights, runs, starts, &grad);
  CheckGradients({Random(3, 3, 2)},
                 [&](const Inputs& in) {
                   DoubleMatrix out(3, 3);
                   SumRows(in[0], rows, offsets, &out);
                   return Weighted(out, weights);
                 },
                 {grad});
}

TEST(ReferenceGradientTest, ResidualLayerNorm) {
  const DropoutNumbers dropout = {0.3f, 5, 6, 7, 8};
  const double epsilon = 1e-3;
  const DoubleMatrix weights = Random(3, 7, 1);
  const Inputs inputs = {Random(3, 7, 2), Random(3, 7, 3), Random(1, 7, 4),
                         Random(1, 7, 5)};
  DoubleMatrix normalised(3, 7), inverse(1, 3), y(3, 7);
  ResidualLayerNorm(dropout, inputs[0], &inputs[1], inputs[2], inputs[3],
                    epsilon, &normalised, &inverse, &y);
  DoubleMatrix grad_x(3, 7), grad_residual(3, 7), grad_gamma(1, 7),
      grad_beta(1, 7);
  ResidualLayerNormBackward(dropout, weights, normalised, inverse, inputs[2],
                            &grad_x, &grad_residual, &grad_gamma, &grad_beta);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix n(3, 7), s(1, 3), out(3, 7);
                   ResidualLayerNorm(dropout, in[0], &in[1], in[2], in[3],
                                     epsilon, &n, &s, &out);
                   return Weighted(out, weights);
                 },
                 {grad_x, grad_residual, grad_gamma, grad_beta});
}

TEST(ReferenceGradientTest, LayerNormOutputIsTheForwardsOutput) {
  const Inputs in = {Random(3, 7, 2), Random(1, 7, 4), Random(1, 7, 5)};
  DoubleMatrix normalised(3, 7), inverse(1, 3), y(3, 7), again(3, 7);
  ResidualLayerNorm({}, in[0], nullptr, in[1], in[2], 1e-3, &normalised,
                    &inverse, &y);
  LayerNormOutput({}, normalised, in[1], &in[2], &again);
  EXPECT_EQ(again.values, y.values);
}

TEST(ReferenceGradientTest, RankSpaceFfn) {
  DoubleMatrix t1 = Random(4, 3, 2);
  for (int64_t i = 0; i < t1.rows; ++i) t1.at(i, 2) = 1;
  const DoubleMatrix weights = Random(4, 5, 1);
  DoubleMatrix grad_t1(4, 2), grad_b1(3, 6), grad_a2(6, 5);
  const Inputs inputs = {Random(3, 6, 3), Random(6, 5, 4), Random(4, 2, 5)};
  // The third input moves the columns of t1 that are not ones.
  const auto tokens = [&](const Inputs& in) {
    DoubleMatrix t = t1;
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t k = 0; k < 2; ++k) t.at(i, k) += in[2].at(i, k);
    }
    return t;
  };
  RankSpaceFfnBackward(tokens(inputs), inputs[0], inputs[1], weights, &grad_t1,
                       &grad_b1, &grad_a2);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix t2(4, 5);
                   RankSpaceFfn(tokens(in), in[0], in[1], &t2);
                   return Weighted(t2, weights);
                 },
                 {grad_b1, grad_a2, grad_t1});
}

TEST(ReferenceGradientTest, ExpandLayerNorm) {
  const DropoutNumbers dropout = {0.3f, 5, 6, 7, 8};
  constexpr double kEpsilon = 1e-3;
  DoubleMatrix t = Random(3, 3, 2);
  for (int64_t i = 0; i < t.rows; ++i) t.at(i, 2) = 1;
  const DoubleMatrix weights = Random(3, 7, 1);
  const Inputs inputs = {Random(3, 7, 3), Random(3, 7, 4), Random(1, 7, 5),
                         Random(1, 7, 6), Random(3, 2, 7)};
  // The last input moves the columns of t that are not ones.
  const auto tokens = [&](const Inputs& in) {
    DoubleMatrix moved = t;
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t k = 0; k < 2; ++k) moved.at(i, k) += in[4].at(i, k);
    }
    return moved;
  };
  DoubleMatrix n(3, 7), deviation(1, 3), y(3, 7);
  ExpandLayerNorm(dropout, tokens(inputs), inputs[0], inputs[1], inputs[2],
                  inputs[3], kEpsilon, &n, &deviation, &y);
  DoubleMatrix grad_b(3, 7), grad_residual(3, 7), grad_gamma(1, 7),
      grad_beta(1, 7), grad_t(3, 2);
  ExpandLayerNormBackward(dropout, tokens(inputs), inputs[0], weights, n,
                          deviation, inputs[2], &grad_residual, &grad_t,
                          &grad_b, &grad_gamma, &grad_beta);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix normalised(3, 7), s(1, 3), out(3, 7);
                   ExpandLayerNorm(dropout, tokens(in), in[0], in[1], in[2],
                                   in[3], kEpsilon, &normalised, &s, &out);
                   return Weighted(out, weights);
                 },
                 {grad_b, grad_residual, grad_gamma, grad_beta, grad_t});
}

TEST(ReferenceGradientTest, ProjectBackward) {
  const DoubleMatrix normalised = Random(4, 6, 1), gamma = Random(1, 6, 2),
                     beta = Random(1, 6, 3), weights = Random(4, 3, 4);
  DoubleMatrix x(4, 6);
  LayerNormOutput({}, normalised, gamma, &beta, &x);
  const Inputs inputs = {Random(6, 3, 5), x};
  DoubleMatrix grad_a(6, 3), grad_x(4, 6);
  ProjectBackward(normalised, &gamma, &beta, weights, inputs[0], &grad_a,
                  &grad_x);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   return Weighted(Product(in[1], in[0]), weights);
                 },
                 {grad_a, grad_x});
}

// Sequences of 4, 0, 1 and 3 tokens.
DoubleMatrix Offsets() {
  DoubleMatrix offsets(1, 5);
  offsets.values = {0, 4, 4, 5, 8};
  return offsets;
}
const DropoutNumbers kAttentionDropout = {0.3f, 5, 6,
                                          7,    8, {3, 1, 4, 15, 9, 2, 6, 53}};

TEST(ReferenceGradientTest, Attention) {
  const AttentionShape shape = {4, 8, 4, 2, 3};
  const DropoutNumbers& dropout = kAttentionDropout;
  const DoubleMatrix offsets = Offsets();
  const DoubleMatrix weights = Random(8, 6, 1);
  const Inputs inputs = {Random(8, 6, 2), Random(8, 6, 3), Random(8, 6, 4)};
  DoubleMatrix log_sum(2, 8), out(8, 6);
  Attention(shape, dropout, offsets, inputs[0], inputs[1], inputs[2], &log_sum,
            &out);
  DoubleMatrix grad_q(8, 6), grad_k(8, 6), grad_v(8, 6);
  AttentionBackward(shape, dropout, offsets, inputs[0], inputs[1], inputs[2],
                    log_sum, weights, &grad_q, &grad_k, &grad_v);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix sums(2, 8), o(8, 6);
                   Attention(shape, dropout, offsets, in[0], in[1], in[2],
                             &sums, &o);
                   return Weighted(o, weights);
                 },
                 {grad_q, grad_k, grad_v});
}

// What packed sequences mean: samples padded to one length, whose padding no
// query sees, and whose tokens dropout knows by their row in that batch.
TEST(ReferenceGradientTest, PackedAttentionIsPaddedAttentionWithAMask) {
  constexpr int64_t kSamples = 3, kLength = 4, kHeads = 2, kWidth = 3;
  const int64_t lengths[kSamples] = {2, 4, 1};
  const DoubleMatrix q = Random(kSamples * kLength, 6, 1);
  const DoubleMatrix k = Random(kSamples * kLength, 6, 2);
  const DoubleMatrix v = Random(kSamples * kLength, 6, 3);
  DropoutNumbers dropout = {0.4f, 5, 6, 7, 40, {}};
  DoubleMatrix expected(kSamples * kLength, 6);
  for (int64_t i = 0; i < kSamples * kLength; ++i) {
    for (int64_t h = 0; h < kHeads; ++h) {
      const int64_t first = i / kLength * kLength;
      double p[kLength], sum = 0;
      for (int64_t j = 0; j < kLength; ++j) {
        double score = j < lengths[i / kLength] ? 0 : -1e9;
        for (int64_t c = h * kWidth; c < (h + 1) * kWidth; ++c) {
          score += q.at(i, c) * k.at(first + j, c) / std::sqrt(3.0);
        }
        sum += p[j] = std::exp(score);
      }
      for (int64_t j = 0; j < kLength; ++j) {
        const double weight =
            p[j] / sum * DropoutScaleAt(dropout, (40 + i) * kHeads + h, j);
        for (int64_t c = h * kWidth; c < (h + 1) * kWidth; ++c) {
          expected.at(i, c) += weight * v.at(first + j, c);
        }
      }
    }
  }
  // Packed in another order: the longest first.
  std::vector<int64_t> rows;
  for (int64_t sample : {1, 0, 2}) {
    for (int64_t j = 0; j < lengths[sample]; ++j) {
      rows.push_back(sample * kLength + j);
    }
  }
  dropout.row_ids.assign(rows.begin(), rows.end());
  DoubleMatrix packed[3] = {{7, 6}, {7, 6}, {7, 6}}, offsets(1, 4);
  offsets.values = {0, 4, 6, 7};
  const DoubleMatrix* padded[3] = {&q, &k, &v};
  for (int m = 0; m < 3; ++m) {
    for (int64_t i = 0; i < 7; ++i) {
      for (int64_t c = 0; c < 6; ++c) {
        packed[m].at(i, c) = padded[m]->at(rows[i], c);
      }
    }
  }
  DoubleMatrix log_sum(kHeads, 7), out(7, 6);
  Attention({3, 7, 4, kHeads, kWidth}, dropout, offsets, packed[0], packed[1],
            packed[2], &log_sum, &out);
  for (int64_t i = 0; i < 7; ++i) {
    for (int64_t c = 0; c < 6; ++c) {
      EXPECT_NEAR(out.at(i, c), expected.at(rows[i], c), 1e-12);
    }
  }
}

// The last column, of ones, is no input.
DoubleMatrix WithOnes(const DoubleMatrix& t) {
  DoubleMatrix with(t.rows, t.cols + 1);
  for (int64_t i = 0; i < t.rows; ++i) {
    for (int64_t j = 0; j < t.cols; ++j) with.at(i, j) = t.at(i, j);
    with.at(i, t.cols) = 1;
  }
  return with;
}

TEST(ReferenceGradientTest, RankSpaceAttention) {
  const RankSpaceAttentionShape shape = {{4, 8, 4, 2, 3}, 2, 4, 3, 5};
  const DropoutNumbers& dropout = kAttentionDropout;
  const DoubleMatrix offsets = Offsets(), weights = Random(8, 5, 1);
  const Inputs inputs = {Random(8, 2, 2), Random(8, 4, 3), Random(8, 3, 4),
                         Random(2 * 3, 5, 5), Random(2 * 4, 5, 6)};
  const auto rank_space = [](const Inputs& in) {
    return RankSpaceInputs{WithOnes(in[0]), WithOnes(in[1]), WithOnes(in[2]),
                           in[3], in[4]};
  };
  DoubleMatrix log_sum(2, 8), out(8, 5);
  RankSpaceAttention(shape, dropout, offsets, rank_space(inputs), &log_sum,
                     &out);
  RankSpaceGradients grads;
  RankSpaceAttentionBackward(shape, dropout, offsets, rank_space(inputs),
                             log_sum, weights, &grads);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix sums(2, 8), o(8, 5);
                   RankSpaceAttention(shape, dropout, offsets, rank_space(in),
                                      &sums, &o);
                   return Weighted(o, weights);
                 },
                 {grads.q, grads.k, grads.v, grads.c, grads.e});
}

// It means attention between the projections around it.
TEST(ReferenceGradientTest, RankSpaceAttentionIsAttention) {
  constexpr int64_t kHeads = 2, kWidth = 3;
  const RankSpaceAttentionShape shape = {{4, 8, 4, kHeads, kWidth}, 2, 4, 3, 5};
  const DoubleMatrix t[] = {WithOnes(Random(8, 2, 2)),
                            WithOnes(Random(8, 4, 3)),
                            WithOnes(Random(8, 3, 4))};
  const DoubleMatrix b[] = {Random(3, 6, 5), Random(5, 6, 6), Random(4, 6, 7)};
  const DoubleMatrix a = Random(6, 5, 8);  // the output projection
  const auto product = [](const DoubleMatrix& x, const DoubleMatrix& y) {
    DoubleMatrix z(x.rows, y.cols);
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < y.cols; ++j) {
        for (int64_t p = 0; p < x.cols; ++p)
          z.at(i, j) += x.at(i, p) * y.at(p, j);
      }
    }
    return z;
  };
  DoubleMatrix log_sum(kHeads, 8), context(8, 6);
  Attention(shape.attention, kAttentionDropout, Offsets(), product(t[0], b[0]),
            product(t[1], b[1]), product(t[2], b[2]), &log_sum, &context);
  const DoubleMatrix expected = product(context, a);

  RankSpaceInputs in = {t[0], t[1], t[2], DoubleMatrix(kHeads * 3, 5),
                        DoubleMatrix(kHeads * 4, 5)};
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t w = h * kWidth; w < (h + 1) * kWidth; ++w) {
      for (int64_t j = 0; j < 5; ++j) {
        for (int64_t i = 0; i < 3; ++i) {
          in.c.at(h * 3 + i, j) += b[0].at(i, w) * b[1].at(j, w);
        }
        for (int64_t i = 0; i < 4; ++i) {
          in.e.at(h * 4 + i, j) += b[2].at(i, w) * a.at(w, j);
        }
      }
    }
  }
  DoubleMatrix sums(kHeads, 8), out(8, 5);
  RankSpaceAttention(shape, kAttentionDropout, Offsets(), in, &sums, &out);
  for (int64_t i = 0; i < out.size(); ++i) {
    EXPECT_NEAR(out[i], expected[i], 1e-12);
  }
  for (int64_t i = 0; i < sums.size(); ++i) {
    EXPECT_NEAR(sums[i], log_sum[i], 1e-12);
  }
}

TEST(ReferenceGradientTest, SoftmaxCrossEntropy) {
  DoubleMatrix labels(1, 3);
  labels.values = {4, 0, 2};
  const Inputs inputs = {Random(3, 5, 1)};
  DoubleMatrix grad(3, 5), totals(1, 3);
  SoftmaxCrossEntropy(inputs[0], labels, &grad, &totals);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix sums(1, 3);
                   SoftmaxCrossEntropy(in[0], labels, nullptr, &sums);
                   return sums[0];
                 },
                 {grad});
}

}  // namespace
}  // namespace comera::kernels::reference
