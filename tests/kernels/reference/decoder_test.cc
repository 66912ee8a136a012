// What a decoder adds to the reference: causal and grouped attention, rotation,
// normalisation by the root mean square, and gates. Gradients against central
// differences, and what each operation means by what is known of it.
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/layer_norm.h"
#include "kernels/reference/pointwise.h"
#include "kernels/reference/rms_norm.h"
#include "kernels/reference/rotate.h"
#include "tests/kernels/reference/gradient_check.h"

namespace comera::kernels::reference {
namespace {

// Sequences of 4, 0, 1 and 3 tokens, with 4 heads of 3 for queries.
constexpr int64_t kTokens = 8, kHeads = 4, kWidth = 3;
constexpr int64_t kQueryColumns = kHeads * kWidth;

AttentionShape Shape(int64_t kv_heads, bool causal) {
  return {4, kTokens, 4, kHeads, kWidth, kv_heads, causal};
}
DoubleMatrix Offsets() {
  DoubleMatrix offsets(1, 5);
  offsets.values = {0, 4, 4, 5, 8};
  return offsets;
}
const DropoutNumbers kDropout = {0.3f, 5, 6, 7, 8, {3, 1, 4, 15, 9, 2, 6, 53}};

struct Output {
  DoubleMatrix log_sum = DoubleMatrix(kHeads, kTokens);
  DoubleMatrix out = DoubleMatrix(kTokens, kQueryColumns);
};
// `in`: queries, keys, values.
Output Attend(const AttentionShape& shape, const Inputs& in) {
  Output output;
  Attention(shape, kDropout, Offsets(), in[0], in[1], in[2], &output.log_sum,
            &output.out);
  return output;
}
Inputs RandomInputs(int64_t kv_heads) {
  return {Random(kTokens, kQueryColumns, 2),
          Random(kTokens, kv_heads * kWidth, 3),
          Random(kTokens, kv_heads * kWidth, 4)};
}

TEST(ReferenceDecoderTest, AttentionGradients) {
  for (int64_t kv_heads : {1, 2, 4}) {
    for (bool causal : {false, true}) {
      SCOPED_TRACE(::testing::Message() << kv_heads << " causal " << causal);
      const AttentionShape shape = Shape(kv_heads, causal);
      const DoubleMatrix weights = Random(kTokens, kQueryColumns, 1);
      const Inputs inputs = RandomInputs(kv_heads);
      Inputs grads = {DoubleMatrix(kTokens, kQueryColumns),
                      DoubleMatrix(kTokens, kv_heads * kWidth),
                      DoubleMatrix(kTokens, kv_heads * kWidth)};
      AttentionBackward(shape, kDropout, Offsets(), inputs[0], inputs[1],
                        inputs[2], Attend(shape, inputs).log_sum, weights,
                        &grads[0], &grads[1], &grads[2]);
      CheckGradients(
          inputs,
          [&](const Inputs& in) {
            return Weighted(Attend(shape, in).out, weights);
          },
          grads);
    }
  }
}

// A head of queries attends as if it had a copy of its group's keys.
TEST(ReferenceDecoderTest, GroupedAttentionIsAttentionWithRepeatedKeys) {
  constexpr int64_t kKeyHeads = 2;
  const Inputs inputs = RandomInputs(kKeyHeads);
  Inputs repeated = {inputs[0], DoubleMatrix(kTokens, kQueryColumns),
                     DoubleMatrix(kTokens, kQueryColumns)};
  for (int m : {1, 2}) {
    for (int64_t i = 0; i < kTokens; ++i) {
      for (int64_t c = 0; c < kQueryColumns; ++c) {
        const int64_t key_head = c / kWidth / (kHeads / kKeyHeads);
        repeated[m].at(i, c) = inputs[m].at(i, key_head * kWidth + c % kWidth);
      }
    }
  }
  const Output grouped = Attend(Shape(kKeyHeads, false), inputs);
  const Output expected = Attend(Shape(0, false), repeated);
  EXPECT_EQ(grouped.out.values, expected.out.values);
  EXPECT_EQ(grouped.log_sum.values, expected.log_sum.values);
}

// A query of causal attention sees what the last query of a shorter sequence
// sees.
TEST(ReferenceDecoderTest, CausalAttentionIsAttentionOfThePrefix) {
  const Inputs inputs = RandomInputs(kHeads);
  const Output causal = Attend(Shape(0, true), inputs);
  const DoubleMatrix offsets = Offsets();
  for (int64_t s = 0; s < 4; ++s) {
    for (int64_t last = offsets.index(s); last < offsets.index(s + 1); ++last) {
      AttentionShape shape = Shape(0, false);
      shape.sequences = 2;  // what comes before, and the prefix
      shape.tokens = last + 1;
      DoubleMatrix cut(1, 3);
      cut.values = {0, offsets[s], static_cast<double>(last + 1)};
      Output prefix;
      Attention(shape, kDropout, cut, inputs[0], inputs[1], inputs[2],
                &prefix.log_sum, &prefix.out);
      for (int64_t c = 0; c < kQueryColumns; ++c) {
        EXPECT_EQ(causal.out.at(last, c), prefix.out.at(last, c));
      }
      for (int64_t h = 0; h < kHeads; ++h) {
        EXPECT_EQ(causal.log_sum.at(h, last), prefix.log_sum.at(h, last));
      }
    }
  }
}

TEST(ReferenceDecoderTest, RmsNorm) {
  const double epsilon = 1e-3;
  const DoubleMatrix weights = Random(3, 7, 1);
  const Inputs inputs = {Random(3, 7, 2), Random(1, 7, 3)};
  DoubleMatrix normalised(3, 7), inverse(1, 3), y(3, 7);
  RmsNorm(inputs[0], inputs[1], epsilon, &normalised, &inverse, &y);
  double squares = 0;
  for (int64_t j = 0; j < 7; ++j) squares += std::pow(inputs[0].at(1, j), 2);
  EXPECT_NEAR(inverse[1], 1 / std::sqrt(squares / 7 + epsilon), 1e-12);
  EXPECT_NEAR(y.at(1, 4), inputs[0].at(1, 4) * inverse[1] * inputs[1][4],
              1e-12);
  DoubleMatrix again(3, 7);
  LayerNormOutput({}, normalised, inputs[1], nullptr, &again);
  EXPECT_EQ(again.values, y.values);
  DoubleMatrix grad_x(3, 7), grad_gamma(1, 7);
  RmsNormBackward(weights, normalised, inverse, inputs[1], &grad_x,
                  &grad_gamma);
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   DoubleMatrix n(3, 7), s(1, 3), out(3, 7);
                   RmsNorm(in[0], in[1], epsilon, &n, &s, &out);
                   return Weighted(out, weights);
                 },
                 {grad_x, grad_gamma});
}

TEST(ReferenceDecoderTest, RotateBackIsItsGradient) {
  DoubleMatrix positions(1, 3);
  positions.values = {0, 5, 1234};
  const Inputs inputs = {Random(3, 12, 2)};
  const DoubleMatrix weights = Random(3, 12, 1);
  const auto rotated = [&](DoubleMatrix x, bool inverse) {
    Rotate(6, 10000, inverse, positions, &x);
    return x;
  };
  CheckGradients(inputs,
                 [&](const Inputs& in) {
                   return Weighted(rotated(in[0], false), weights);
                 },
                 {rotated(weights, true)});
  const DoubleMatrix back = rotated(rotated(inputs[0], false), true);
  for (int64_t i = 0; i < back.size(); ++i) {
    EXPECT_NEAR(back[i], inputs[0][i], 1e-12);
  }
}

// Columns i and i + half are the parts of a complex number, which turns by
// position * theta^(-i / half); scores depend on distances alone.
TEST(ReferenceDecoderTest, RotateTurnsHalvesByTheirPosition) {
  DoubleMatrix positions(1, 2), x(2, 4);
  positions.values = {3, 10};
  for (int64_t row : {0, 1}) {
    x.at(row, 0) = 1;
    x.at(row, 1) = 1;
  }
  Rotate(4, 100, false, positions, &x);
  EXPECT_NEAR(x.at(0, 0), std::cos(3.0), 1e-12);
  EXPECT_NEAR(x.at(0, 2), std::sin(3.0), 1e-12);
  EXPECT_NEAR(x.at(0, 1), std::cos(0.3), 1e-12);
  EXPECT_NEAR(x.at(0, 3), std::sin(0.3), 1e-12);
  double score = 0;
  for (int64_t c = 0; c < 4; ++c) score += x.at(0, c) * x.at(1, c);
  EXPECT_NEAR(score, std::cos(7.0) + std::cos(0.7), 1e-12);
}

TEST(ReferenceDecoderTest, Gates) {
  for (Activation f : {Activation::kSilu, Activation::kGelu,
                       Activation::kGeluTanh, Activation::kIdentity}) {
    const DoubleMatrix weights = Random(3, 5, 1);
    const Inputs inputs = {Random(3, 5, 2), Random(3, 5, 3)};
    DoubleMatrix grad_gate(3, 5), grad_up(3, 5);
    GatedBackward(f, inputs[0], inputs[1], weights, &grad_gate, &grad_up);
    CheckGradients(inputs,
                   [&](const Inputs& in) {
                     DoubleMatrix y(3, 5);
                     Gated(f, in[0], in[1], &y);
                     return Weighted(y, weights);
                   },
                   {grad_gate, grad_up});
  }
}

// GPT-2's form stays within 5e-4 of the exact one, which it stands for.
TEST(ReferenceDecoderTest, GeluTanhIsNearGelu) {
  for (double at : {-4.0, -1.5, -0.3, 0.0, 0.7, 2.0, 5.0}) {
    DoubleMatrix x(1, 1), exact(1, 1), tanh(1, 1);
    x[0] = at;
    Activate(Activation::kGelu, x, &exact);
    Activate(Activation::kGeluTanh, x, &tanh);
    EXPECT_NEAR(tanh[0], exact[0], 5e-4) << at;
  }
}

}  // namespace
}  // namespace comera::kernels::reference
