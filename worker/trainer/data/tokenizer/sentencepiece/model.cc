// Reads and checks a SentencePiece model.
#include "worker/trainer/data/tokenizer/sentencepiece/model.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/sentencepiece/model.pb.h"

namespace comera::trainer {
namespace {

constexpr int kMaxPieces = 4 << 20;
constexpr size_t kMaxPieceBytes = 8000;

using Type = SentencePieceModel::Type;

absl::StatusOr<SentencePieceModel::Kind> KindOf(
    const sentencepiece::TrainerSpec& spec) {
  switch (spec.model_type()) {
    case sentencepiece::TrainerSpec::UNIGRAM:
      return SentencePieceModel::Kind::kUnigram;
    case sentencepiece::TrainerSpec::BPE:
      return SentencePieceModel::Kind::kBpe;
    case sentencepiece::TrainerSpec::WORD:
    case sentencepiece::TrainerSpec::CHAR:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "trainer_spec.model_type: ",
      sentencepiece::TrainerSpec::ModelType_Name(spec.model_type()),
      " is not supported, only BPE and UNIGRAM are"));
}

Type TypeOf(sentencepiece::SentencePiece::Type type) {
  switch (type) {
    case sentencepiece::SentencePiece::NORMAL:
      return Type::kNormal;
    case sentencepiece::SentencePiece::UNKNOWN:
      return Type::kUnknown;
    case sentencepiece::SentencePiece::CONTROL:
      return Type::kControl;
    case sentencepiece::SentencePiece::USER_DEFINED:
      return Type::kUserDefined;
    case sentencepiece::SentencePiece::UNUSED:
      return Type::kUnused;
    case sentencepiece::SentencePiece::BYTE:
      return Type::kByte;
  }
  return Type::kNormal;
}

// Takes the pieces in the order of their ids.
class PieceReader {
 public:
  explicit PieceReader(SentencePieceModel* model) : model_(*model) {
    model_.byte_ids.fill(-1);
    model_.unknown = -1;
  }

  absl::Status Add(const sentencepiece::SentencePiece& from) {
    SentencePieceModel::Piece piece;
    piece.text = from.piece();
    piece.score = from.score();
    piece.type = TypeOf(from.type());
    if (piece.text.empty() || piece.text.size() >= kMaxPieceBytes ||
        !IsValidUtf8(piece.text)) {
      return absl::DataLossError(
          absl::StrCat("must be UTF-8 of 1 to ", kMaxPieceBytes - 1, " bytes"));
    }
    if (!std::isfinite(piece.score)) {
      return absl::DataLossError("the score is not finite");
    }
    // A piece of text and another may have one name.
    auto& names = piece.is_text() ? texts_ : others_;
    if (!names.insert(piece.text).second) {
      return absl::DataLossError("this piece occurs twice");
    }
    const int32_t id = static_cast<int32_t>(model_.pieces.size());
    if (piece.type == Type::kUnknown) {
      if (model_.unknown >= 0) {
        return absl::DataLossError("there are two unknown pieces");
      }
      model_.unknown = id;
    }
    if (piece.type == Type::kByte) RETURN_IF_ERROR(AddByte(piece.text, id));
    model_.pieces.push_back(std::move(piece));
    return absl::OkStatus();
  }

  absl::Status Finish() const {
    if (model_.unknown < 0) {
      return absl::DataLossError("pieces: none is unknown");
    }
    const auto missing = absl::c_find(model_.byte_ids, -1);
    if (model_.byte_fallback && missing != model_.byte_ids.end()) {
      return absl::DataLossError(absl::StrCat(
          "pieces: none is byte ", missing - model_.byte_ids.begin(),
          ", which trainer_spec.byte_fallback needs"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddByte(const std::string& text, int32_t id) {
    uint32_t byte = 0;
    if (text.size() != 6 || !absl::SimpleHexAtoi(text.substr(3, 2), &byte) ||
        text != absl::StrFormat("<0x%02X>", byte)) {
      return absl::DataLossError("a byte must be of the form <0x41>");
    }
    model_.byte_ids[byte] = id;
    return absl::OkStatus();
  }

  SentencePieceModel& model_;
  absl::flat_hash_set<std::string> texts_;
  absl::flat_hash_set<std::string> others_;
};

int32_t FindControl(const SentencePieceModel& model, const std::string& text) {
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    if (piece.type == Type::kControl && piece.text == text) {
      return static_cast<int32_t>(id);
    }
  }
  return -1;
}

absl::StatusOr<SentencePieceModel> Convert(
    const sentencepiece::ModelProto& proto) {
  const sentencepiece::TrainerSpec& trainer = proto.trainer_spec();
  const sentencepiece::NormalizerSpec& normalizer = proto.normalizer_spec();
  SentencePieceModel model;
  ASSIGN_OR_RETURN(model.kind, KindOf(trainer));
  if (trainer.treat_whitespace_as_suffix()) {
    return absl::InvalidArgumentError(
        "trainer_spec.treat_whitespace_as_suffix: is not supported");
  }
  if (!proto.denormalizer_spec().precompiled_charsmap().empty()) {
    return absl::InvalidArgumentError("denormalizer_spec: is not supported");
  }
  if (proto.pieces_size() > kMaxPieces) {
    return absl::DataLossError("pieces: too many");
  }
  model.byte_fallback = trainer.byte_fallback();
  PieceReader reader(&model);
  for (int i = 0; i < proto.pieces_size(); ++i) {
    const absl::Status status = reader.Add(proto.pieces(i));
    if (!status.ok()) {
      return absl::DataLossError(
          absl::StrCat("pieces[", i, "]: ", status.message()));
    }
  }
  RETURN_IF_ERROR(reader.Finish());
  model.begin = FindControl(model, trainer.bos_piece());
  model.end = FindControl(model, trainer.eos_piece());
  model.pad = FindControl(model, trainer.pad_piece());
  model.unknown_text = trainer.unk_surface();
  if (model.unknown_text.size() >= kMaxPieceBytes ||
      !IsValidUtf8(model.unknown_text)) {
    return absl::DataLossError(
        absl::StrCat("trainer_spec.unk_surface: must be UTF-8 of up to ",
                     kMaxPieceBytes - 1, " bytes"));
  }
  model.character_map = normalizer.precompiled_charsmap();
  model.add_dummy_prefix = normalizer.add_dummy_prefix();
  model.remove_extra_spaces = normalizer.remove_extra_whitespaces();
  model.escape_spaces = normalizer.escape_whitespaces();
  return model;
}

}  // namespace

void SentencePieceModel::AppendUnknown(absl::string_view character,
                                       std::vector<int32_t>* ids) const {
  if (!byte_fallback) {
    ids->push_back(unknown);
    return;
  }
  for (const unsigned char byte : character) ids->push_back(byte_ids[byte]);
}

absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(
    absl::string_view contents, const std::string& name) {
  sentencepiece::ModelProto proto;
  absl::StatusOr<SentencePieceModel> model =
      absl::DataLossError("not a SentencePiece model");
  if (contents.size() <= std::numeric_limits<int>::max() &&
      proto.ParseFromArray(contents.data(),
                           static_cast<int>(contents.size()))) {
    model = Convert(proto);
  }
  if (!model.ok()) {
    return absl::Status(
        model.status().code(),
        absl::StrCat(PrintablePath(name), ": ", model.status().message()));
  }
  return model;
}

}  // namespace comera::trainer
