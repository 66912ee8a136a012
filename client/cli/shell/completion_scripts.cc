// The completion scripts for bash, zsh and fish.

#include "client/cli/shell/completion_scripts.h"

namespace comera::client {
namespace {

// Bash splits words at `=`, `:` and `@` and replaces only what follows the last
// of them. So the script takes the words from the line itself, and removes the
// part before that character from the candidates.
constexpr char kBash[] = R"(# comera completion for bash; use it with
#   source <(comera completion bash)
_comera() {
  COMPREPLY=()
  local line="${COMP_LINE:0:COMP_POINT}" kind word rest
  local -a words
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local current="${words[${#words[@]}-1]}" kept="" i
  for ((i = 0; i < ${#current}; ++i)); do
    case "${current:i:1}" in
      [=:@]) [[ $COMP_WORDBREAKS == *"${current:i:1}"* ]] &&
        kept="${current:0:i+1}" ;;
    esac
  done
  while IFS=$'\t' read -r word rest; do
    if [[ -z $kind ]]; then
      kind="$word"
    else
      COMPREPLY+=("${word#"$kept"}")
    fi
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  local value="${current#"$kept"}"
  case "$kind" in
    files) compopt -o filenames 2>/dev/null
      while IFS= read -r word; do COMPREPLY+=("$word"); done \
        < <(compgen -f -- "$value") ;;
    folders) compopt -o filenames 2>/dev/null
      while IFS= read -r word; do COMPREPLY+=("$word"); done \
        < <(compgen -d -- "$value") ;;
  esac
}
complete -F _comera comera
)";

constexpr char kZsh[] = R"(#compdef comera
# comera completion for zsh; use it with
#   source <(comera completion zsh)
# or put it into a folder of $fpath as _comera.
_comera() {
  local -a lines candidates
  local line kind
  lines=("${(@f)$(${words[1]} __complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  kind="${lines[1]}"
  for line in "${(@)lines[2,-1]}"; do
    [[ -n $line ]] || continue
    line="${line//:/\\:}"
    candidates+=("${line/$'\t'/:}")
  done
  (( ${#candidates} )) && _describe -V comera candidates
  case "$kind" in
    files) compset -P '--*='; _files ;;
    folders) compset -P '--*='; _files -/ ;;
  esac
}
if [[ ${funcstack[1]} == _comera ]]; then
  _comera "$@"
else
  compdef _comera comera
fi
)";

constexpr char kFish[] = R"(# comera completion for fish; use it with
#   comera completion fish | source
# or put it into ~/.config/fish/completions/comera.fish.
function __comera_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l lines ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
  test (count $lines) -gt 0; or return
  for line in $lines[2..-1]
    echo $line
  end
  set -l value (string replace -r '^--[^=]*=' '' -- "$current")
  set -l flag (string sub -l (math (string length -- "$current") - (string length -- "$value")) -- "$current")
  switch $lines[1]
    case files
      for path in (__fish_complete_path "$value")
        echo "$flag$path"
      end
    case folders
      for path in (__fish_complete_directories "$value" "")
        echo "$flag$path"
      end
  end
end
complete -c comera -f -k -a '(__comera_complete)'
)";

}  // namespace

std::string CompletionScript(const std::string& shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

}  // namespace comera::client
