// Finds the most probable pieces of a SentencePiece unigram model.
#include "worker/trainer/data/tokenizer/sentencepiece/unigram_segmenter.h"

#include <algorithm>
#include <cfloat>
#include <cstddef>

#include "unicode/utf8.h"

namespace comera::trainer {
namespace {

using Type = SentencePieceModel::Type;

// How much an unknown character is worse than the worst piece, and a
// user-defined piece than the same characters as best pieces: SentencePiece's
// own numbers.
constexpr float kUnknownPenalty = 10.0f;
constexpr double kUserDefinedPenalty = 0.1;

}  // namespace

UnigramSegmenter::UnigramSegmenter(const SentencePieceModel* model)
    : model_(*model), largest_score_(FLT_MIN) {
  float smallest = FLT_MAX;
  for (size_t id = 0; id < model_.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model_.pieces[id];
    if (piece.type == Type::kNormal) {
      smallest = std::min(smallest, piece.score);
      largest_score_ = std::max(largest_score_, piece.score);
    }
    if (piece.is_text() && piece.type != Type::kUnused) {
      pieces_.Add(piece.text, static_cast<int32_t>(id));
    }
  }
  unknown_score_ = smallest - kUnknownPenalty;
}

double UnigramSegmenter::Score(int32_t id, size_t size) const {
  const SentencePieceModel::Piece& piece = model_.pieces[id];
  return piece.type == Type::kUserDefined
             ? static_cast<float>(size) * largest_score_ - kUserDefinedPenalty
             : piece.score;
}

std::vector<UnigramSegmenter::Place> UnigramSegmenter::BestWays(
    absl::string_view text) const {
  std::vector<Place> places(text.size() + 1);
  for (size_t begin = 0; begin < text.size();) {
    const absl::string_view rest = text.substr(begin);
    // SentencePiece keeps sums as float; equal ids need equal rounding.
    const float score_here = places[begin].score;
    const auto offer = [&](size_t size, int32_t id, double score) {
      Place& place = places[begin + size];
      const double sum = score + score_here;
      if (place.begin >= 0 && !(sum > place.score)) return;
      place.score = static_cast<float>(sum);
      place.begin = static_cast<int32_t>(begin);
      place.id = id;
    };
    int64_t character = 0;
    U8_FWD_1(rest.data(), character, static_cast<int64_t>(rest.size()));
    const size_t size = static_cast<size_t>(character);
    bool known = false;
    pieces_.ForEachPrefix(rest, [&](const PrefixTrie::Match& match) {
      offer(match.length, match.value, Score(match.value, match.length));
      known = known || match.length == size;
    });
    if (!known) offer(size, model_.unknown, unknown_score_);
    begin += size;
  }
  return places;
}

void UnigramSegmenter::Append(absl::string_view text,
                              std::vector<int32_t>* ids) const {
  const std::vector<Place> places = BestWays(text);
  std::vector<size_t> ends;
  for (size_t at = text.size(); at > 0;
       at = static_cast<size_t>(places[at].begin)) {
    ends.push_back(at);
  }
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const Place& place = places[*end];
    if (place.id == model_.unknown) {
      model_.AppendUnknown(text.substr(place.begin, *end - place.begin), ids);
    } else {
      ids->push_back(place.id);
    }
  }
}

}  // namespace comera::trainer
