# shellcheck shell=bash
# train.tsv, dev.tsv: sentence pairs as of MNLI; ~/linux/kernel: some source.
make_pairs() {
  local row
  printf 'index'
  printf '\tcolumn%s' $(seq 7)
  printf '\tsentence1\tsentence2\tlabel\n'
  for row in $(seq "$1"); do
    printf '%s\ta\tb\tc\td\te\tf\tg\tone man walks %s\tnobody walks\t%s\n' \
      "$row" "$row" "$(sed -n "$((row % 3 + 1))p" <<<$'entailment\nneutral\ncontradiction')"
  done
}
make_pairs 30 >train.tsv
make_pairs 9 >dev.tsv
mkdir -p "$HOME/linux/kernel"
echo 'int main(void) { return 0; }' >"$HOME/linux/kernel/fork.c"
