// Computes a decoder's logits, loss and gradients document by document.
//
// LLaMA (arXiv 2302.13971): x += attention(rms(x)); x += down(silu(gate(h)) *
// up(h)) with h = rms(x). GPT-2: x += attention(norm(x)); x +=
// down(gelu(up(norm(x)))). Logits are the last norm times the output matrix.

#include "tests/golden/double_decoder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/golden/specified_layout.h"
#include "tests/golden/tape.h"

namespace comera::golden {
namespace {

using trainer::Factorisation;
using trainer::LowRank;
using trainer::ModelConfig;
using trainer::Parameter;
using trainer::ParameterLayout;
using Id = Tape::Id;
using Row = Tape::Row;

constexpr char kWords[] = "decoder.embedding.word";

bool IsGpt2(const ModelConfig& config) {
  return config.architecture == v1::ModelSpec::GPT2;
}

// A matrix of scalars.
struct Matrix {
  int64_t rows = 0, columns = 0;
  Row scalars;  // row-major

  Row RowAt(int64_t i) const {
    const auto begin = scalars.begin() + i * columns;
    return Row(begin, begin + columns);
  }
  Row ColumnAt(int64_t j) const {
    Row column;
    for (int64_t i = 0; i < rows; ++i)
      column.push_back(scalars[i * columns + j]);
    return column;
  }
};

// The model on one document, whose parameters are the first scalars of a tape.
class Document {
 public:
  Document(const ModelConfig& config, const ParameterLayout& layout,
           const std::vector<float>& parameters)
      : config_(config),
        layout_(layout),
        head_width_(config.hidden / config.heads) {
    for (float value : parameters) tape_.Leaf(value);
  }

  const Tape& tape() const { return tape_; }

  // A row of logits for each token.
  std::vector<Row> Logits(const std::vector<int32_t>& ids) {
    std::vector<Row> x;
    for (int32_t id : ids) {
      const auto position = static_cast<int64_t>(x.size());
      x.push_back(Weight("embedding", kWords).RowAt(id));
      if (IsGpt2(config_)) {
        AddTo(Stored("decoder.embedding.position").RowAt(position), &x.back());
      }
    }
    for (int64_t i = 0; i < config_.layers; ++i) {
      const std::string number = absl::StrCat("layers.", i, ".");
      const std::string name = "decoder." + number;
      const std::vector<Row> attended =
          Attention(number, Normalised(name + "attention.norm", x));
      for (size_t t = 0; t < x.size(); ++t) AddTo(attended[t], &x[t]);
      const std::vector<Row> h = Normalised(name + "ffn.norm", x);
      for (size_t t = 0; t < x.size(); ++t) {
        AddTo(FeedForward(number, h[t]), &x[t]);
      }
    }
    std::vector<Row> logits;
    for (const Row& row : Normalised("head.norm", x)) {
      logits.push_back(Output(row));
    }
    return logits;
  }

  // -log softmax(logits)[label].
  Id Loss(const Row& logits, int32_t label) {
    return tape_.Add(LogSum(logits), tape_.Linear(logits[label], -1, 0));
  }

  Id Sum(const Row& terms) { return tape_.Sum(terms); }

 private:
  const Parameter& At(const std::string& name) const {
    return layout_.parameters().at(layout_.Find(name));
  }

  // `count` scalars of a parameter from `first`, `stride` apart.
  Row Pick(const std::string& name, int64_t first, int64_t stride,
           int64_t count) const {
    Row row;
    for (int64_t i = 0; i < count; ++i) {
      row.push_back(static_cast<Id>(At(name).offset + first + i * stride));
    }
    return row;
  }

  Row Vector(const std::string& name) const {
    return Pick(name, 0, 1, At(name).size);
  }

  Matrix Stored(const std::string& name) const {
    return {At(name).shape[0], At(name).shape[1], Vector(name)};
  }

  // The weight of the layer `key`, whose parameters are name.*, contracted if
  // it is in cores.
  const Matrix& Weight(const std::string& key, const std::string& name) {
    Matrix& weight = weights_[name];
    if (!weight.scalars.empty()) return weight;
    const Factorisation& f = config_.layers_by_name.at(key);
    if (f.dense()) {
      weight = Stored(name + ".weight");
      return weight;
    }
    const bool embedding = key == "embedding";
    const auto product = [](const std::vector<int64_t>& modes) {
      return std::accumulate(modes.begin(), modes.end(), int64_t{1},
                             std::multiplies<int64_t>());
    };
    weight = {product(f.input_modes), product(f.output_modes),
              Contracted(name, CoreModesOf(f, embedding))};
    if (f.dense_tokens.empty()) return weight;
    const Matrix rows = Stored(name + ".dense_rows");
    for (int64_t i = 0; i < rows.rows; ++i) {
      const Row row = rows.RowAt(i);
      std::copy(row.begin(), row.end(),
                weight.scalars.begin() + f.dense_tokens[i] * weight.columns);
    }
    return weight;
  }

  // G_1 D_1 G_2 D_2 .. G_order, the rows of all cores before their columns; D
  // are the rank entries above the threshold (arXiv 2405.14377).
  Row Contracted(const std::string& name, const CoreModes& modes) {
    Row product = {tape_.Leaf(1)};  // (rows, columns, rank)
    int64_t rows = 1, columns = 1, rank = 1;
    for (size_t c = 0; c < modes.rows.size(); ++c) {
      const std::string core = absl::StrCat(name, ".core.", c);
      const int64_t m = modes.rows[c], n = modes.columns[c];
      const int64_t right = At(core).shape.back();
      const bool last = c + 1 == modes.rows.size();
      const Row entries =
          last ? Row() : Vector(absl::StrCat(name, ".rank.", c));
      Row next;
      for (int64_t row = 0; row < rows * m; ++row) {
        for (int64_t column = 0; column < columns * n; ++column) {
          const auto left =
              product.begin() + (row / m * columns + column / n) * rank;
          const int64_t place = row % m * n + column % n;
          for (int64_t k = 0; k < right; ++k) {
            const Id sum =
                tape_.Dot(Row(left, left + rank),
                          Pick(core, place * right + k, m * n * right, rank));
            next.push_back(last ? sum : Folded(sum, entries[k]));
          }
        }
      }
      product = std::move(next);
      rows *= m;
      columns *= n;
      rank = right;
    }
    return product;
  }

  Id Folded(Id sum, Id entry) {
    const bool alive = tape_.value(entry) > double{config_.rank_threshold};
    return alive ? tape_.Multiply(sum, entry) : tape_.Leaf(0);
  }

  void AddTo(const Row& more, Row* row) {
    for (size_t i = 0; i < row->size(); ++i) {
      (*row)[i] = tape_.Add((*row)[i], more[i]);
    }
  }

  // x W, W (inputs, outputs).
  Row Product(const Row& x, const Matrix& w) {
    Row y;
    for (int64_t o = 0; o < w.columns; ++o) {
      y.push_back(tape_.Dot(x, w.ColumnAt(o)));
    }
    return y;
  }

  // The layer "layers.0.ffn_up" has parameters "decoder.layers.0.ffn.up.*".
  Row Linear(const std::string& key, const std::string& name, const Row& x) {
    const LowRank& low = config_.layers_by_name.at(key).low_rank;
    Row y;
    if (low.kind == LowRank::Kind::kCola) {
      Row between = Product(x, Stored(name + ".a"));
      if (!low.linear) {
        for (Id& t : between) t = Silu(t);
      }
      y = Product(between, Stored(name + ".b"));
    } else {
      y = Product(x, Weight(key, name));
    }
    if (IsGpt2(config_)) AddTo(Vector(name + ".bias"), &y);
    return y;
  }

  // Cores may have more rows or columns than there are words.
  Row Output(const Row& x) {
    Row y;
    if (config_.tie_output) {
      for (int64_t v = 0; v < config_.vocabulary; ++v) {
        y.push_back(tape_.Dot(x, Weight("embedding", kWords).RowAt(v)));
      }
    } else {
      y = Linear("output", "head.output", x);
      y.resize(config_.vocabulary);
    }
    return y;
  }

  Id Silu(Id a) {
    const double x = tape_.value(a), s = 1 / (1 + std::exp(-x));
    return tape_.Function(a, x * s, s + x * s * (1 - s));
  }

  // The tanh form.
  Id Gelu(Id a) {
    const double x = tape_.value(a), c = std::sqrt(2 / M_PI);
    const double t = std::tanh(c * (x + 0.044715 * x * x * x));
    const double inner = c * (1 + 3 * 0.044715 * x * x);
    return tape_.Function(a, 0.5 * x * (1 + t),
                          0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner);
  }

  // log of the sum of exponentials.
  Id LogSum(const Row& x) {
    double largest = tape_.value(x[0]);
    for (Id id : x) largest = std::max(largest, tape_.value(id));
    Row terms;
    for (Id id : x) {
      const double e = std::exp(tape_.value(id) - largest);
      terms.push_back(tape_.Function(id, e, e));
    }
    const Id sum = tape_.Sum(terms);
    const double value = tape_.value(sum);
    return tape_.Function(sum, std::log(value) + largest, 1 / value);
  }

  Row Softmax(const Row& x) {
    const Id minus_log_sum = tape_.Linear(LogSum(x), -1, 0);
    Row p;
    for (Id id : x) {
      const Id difference = tape_.Add(id, minus_log_sum);
      const double e = std::exp(tape_.value(difference));
      p.push_back(tape_.Function(difference, e, e));
    }
    return p;
  }

  // RMSNorm, or LayerNorm for GPT-2.
  std::vector<Row> Normalised(const std::string& name,
                              const std::vector<Row>& rows) {
    const bool layer_norm = IsGpt2(config_);
    const double width = static_cast<double>(config_.hidden);
    std::vector<Row> result;
    for (Row x : rows) {
      if (layer_norm) {
        const Id minus_mean = tape_.Linear(tape_.Sum(x), -1 / width, 0);
        for (Id& id : x) id = tape_.Add(id, minus_mean);
      }
      const Id square = tape_.Linear(tape_.Dot(x, x), 1 / width,
                                     double{config_.layer_norm_epsilon});
      const double v = tape_.value(square);
      const Id factor =
          tape_.Function(square, 1 / std::sqrt(v), -0.5 / (v * std::sqrt(v)));
      const Row gamma = Vector(name + ".gamma");
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = tape_.Multiply(tape_.Multiply(x[i], factor), gamma[i]);
      }
      if (layer_norm) {
        AddTo(Vector(name + ".beta"), &x);
      }
      result.push_back(x);
    }
    return result;
  }

  // The columns of one head.
  Row Head(const Row& x, int64_t head) const {
    const auto begin = x.begin() + head * head_width_;
    return Row(begin, begin + head_width_);
  }

  // LLaMA's queries or keys: columns i and i + width / 2 of every head turned
  // by position * theta^(-2 i / width).
  Row Rotated(const Row& x, size_t position) {
    const int64_t half = head_width_ / 2;
    const double width = static_cast<double>(head_width_);
    Row y = x;
    for (size_t j = 0; j < x.size(); ++j) {
      const int64_t i = static_cast<int64_t>(j) % head_width_;
      if (i >= half) continue;
      const double angle = static_cast<double>(position) *
                           std::pow(double{config_.rope_theta},
                                    -2 * static_cast<double>(i) / width);
      const double c = std::cos(angle), s = std::sin(angle);
      const Id a = x[j], b = x[j + half];
      y[j] = tape_.Add(tape_.Linear(a, c, 0), tape_.Linear(b, -s, 0));
      y[j + half] = tape_.Add(tape_.Linear(b, c, 0), tape_.Linear(a, s, 0));
    }
    return y;
  }

  std::vector<Row> Attention(const std::string& number,
                             const std::vector<Row>& x) {
    const std::string name = "decoder." + number + "attention.";
    std::vector<Row> q, k, v, result;
    for (size_t t = 0; t < x.size(); ++t) {
      q.push_back(Linear(number + "query", name + "query", x[t]));
      k.push_back(Linear(number + "key", name + "key", x[t]));
      v.push_back(Linear(number + "value", name + "value", x[t]));
      if (IsGpt2(config_)) continue;
      q[t] = Rotated(q[t], t);
      k[t] = Rotated(k[t], t);
    }
    const int64_t group = config_.heads / config_.kv_heads;
    for (size_t t = 0; t < x.size(); ++t) {
      Row out;
      for (int64_t h = 0; h < config_.heads; ++h) {
        const Row head = AttendedHead(Head(q[t], h), k, v, t, h / group);
        out.insert(out.end(), head.begin(), head.end());
      }
      result.push_back(Linear(number + "output", name + "output", out));
    }
    return result;
  }

  // What a query of token `t` reads from the tokens up to its own.
  Row AttendedHead(const Row& query, const std::vector<Row>& k,
                   const std::vector<Row>& v, size_t t, int64_t kv_head) {
    const double scale = 1 / std::sqrt(static_cast<double>(head_width_));
    Row scores;
    for (size_t s = 0; s <= t; ++s) {
      const Id product = tape_.Dot(query, Head(k[s], kv_head));
      scores.push_back(tape_.Linear(product, scale, 0));
    }
    const Row p = Softmax(scores);
    Row out;
    for (int64_t i = 0; i < head_width_; ++i) {
      Row column;
      for (size_t s = 0; s <= t; ++s) {
        column.push_back(v[s][kv_head * head_width_ + i]);
      }
      out.push_back(tape_.Dot(p, column));
    }
    return out;
  }

  Row FeedForward(const std::string& number, const Row& x) {
    const std::string name = "decoder." + number + "ffn.";
    Row hidden = Linear(number + "ffn_up", name + "up", x);
    if (IsGpt2(config_)) {
      for (Id& id : hidden) id = Gelu(id);
    } else {
      const Row gate = Linear(number + "ffn_gate", name + "gate", x);
      for (size_t i = 0; i < hidden.size(); ++i) {
        const Id factor = config_.gate_silu ? Silu(gate[i]) : gate[i];
        hidden[i] = tape_.Multiply(factor, hidden[i]);
      }
    }
    return Linear(number + "ffn_down", name + "down", hidden);
  }

  const ModelConfig& config_;
  const ParameterLayout& layout_;
  const int64_t head_width_;
  Tape tape_;
  std::map<std::string, Matrix> weights_;  // by name
};

// Rows [begin, end) of a batch.
struct Rows {
  int64_t begin = 0, end = 0;
};

std::vector<Rows> Documents(const trainer::Batch& batch) {
  std::vector<Rows> documents;
  for (int64_t row = 0; row < batch.size * batch.length; ++row) {
    if (batch.mask[row] == 0) continue;
    const bool begins = row % batch.length == 0 ||
                        batch.segments[row] != batch.segments[row - 1];
    if (begins) documents.push_back({row, row});
    documents.back().end = row + 1;
  }
  return documents;
}

}  // namespace

DoubleDecoderResult RunDoubleDecoder(const ModelConfig& config,
                                     const std::vector<float>& parameters,
                                     const trainer::Batch& batch) {
  const ParameterLayout layout = SpecifiedLayout(config);
  DoubleDecoderResult result;
  result.gradients.resize(parameters.size());
  for (const Rows& rows : Documents(batch)) {
    Document document(config, layout, parameters);
    const auto first = batch.ids.begin();
    const std::vector<Row> logits =
        document.Logits({first + rows.begin, first + rows.end});
    for (const Row& row : logits) {
      for (Id id : row) {
        result.logits.push_back(static_cast<float>(document.tape().value(id)));
      }
    }
    Row losses;
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      const int64_t row = batch.label_rows[i];
      if (row < rows.begin || row >= rows.end) continue;
      losses.push_back(
          document.Loss(logits[row - rows.begin], batch.labels[i]));
    }
    const Id loss = document.Sum(losses);
    result.loss_sum += document.tape().value(loss);
    const std::vector<double> gradients = document.tape().Gradients(loss);
    for (size_t i = 0; i < parameters.size(); ++i) {
      result.gradients[i] += gradients[i];
    }
  }
  return result;
}

}  // namespace comera::golden
