// Makes a tokenizer.json, a SentencePiece model and its rules.
#include "tests/worker/trainer/data/tokenizer/small_files.h"

#include <cstdint>

#include "worker/trainer/data/tokenizer/byte_level.h"

namespace comera::trainer {

using nlohmann::json;

json SmallTokenizerJson(
    const std::vector<std::pair<std::string, std::string>>& merges) {
  json vocabulary = json::object(), list = json::array();
  for (const std::string& character : ByteCharacters()) {
    vocabulary[character] = vocabulary.size();
  }
  for (const auto& [left, right] : merges) {
    vocabulary[left + right] = vocabulary.size();
    list.push_back(left + " " + right);
  }
  json end_of_text = {{"id", vocabulary.size()}, {"content", "<|endoftext|>"},
                      {"single_word", false},    {"lstrip", false},
                      {"rstrip", false},         {"normalized", false},
                      {"special", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", json::array({std::move(end_of_text)})},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(list)}}}};
}

sentencepiece::ModelProto SmallSentencePieceModel(
    const std::vector<std::string>& pieces) {
  sentencepiece::ModelProto model;
  const auto add = [&](const std::string& text, float score,
                       sentencepiece::SentencePiece::Type type) {
    sentencepiece::SentencePiece* const piece = model.add_pieces();
    piece->set_piece(text);
    piece->set_score(score);
    piece->set_type(type);
  };
  add("<unk>", 0, sentencepiece::SentencePiece::UNKNOWN);
  add("<s>", 0, sentencepiece::SentencePiece::CONTROL);
  add("</s>", 0, sentencepiece::SentencePiece::CONTROL);
  float score = 0;
  for (const std::string& piece : pieces) {
    add(piece, score, sentencepiece::SentencePiece::NORMAL);
    score -= 1;
  }
  model.mutable_trainer_spec()->set_model_type(sentencepiece::TrainerSpec::BPE);
  model.mutable_normalizer_spec()->set_remove_extra_whitespaces(false);
  return model;
}

std::string SmallCharacterMap(const std::map<std::string, std::string>& rules) {
  // The children of each node have 256 places of their own, at a multiple of
  // 256: a child's place is that plus its byte, byte 0 the node's value.
  constexpr uint32_t kEndsString = 1 << 8, kIsValue = uint32_t{1} << 31;
  std::vector<uint32_t> units(512, 0);
  units[0] = 256 << 10;
  std::string replacements;
  for (const auto& [key, replacement] : rules) {
    uint32_t children = 256, place = 0;
    for (const unsigned char byte : key) {
      place = children + byte;
      if (units[place] == 0) {
        const uint32_t added = static_cast<uint32_t>(units.size());
        units.resize(added + 256, 0);
        units[place] = (place ^ added) << 10 | byte;
      }
      children = place ^ units[place] >> 10;
    }
    units[place] |= kEndsString;
    units[children] = kIsValue | static_cast<uint32_t>(replacements.size());
    replacements += replacement + '\0';
  }
  std::string bytes;
  const auto append = [&bytes](uint32_t value) {
    for (int i = 0; i < 4; ++i) {
      bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
    }
  };
  append(static_cast<uint32_t>(4 * units.size()));
  for (const uint32_t unit : units) append(unit);
  return bytes + replacements;
}

}  // namespace comera::trainer
