#!/usr/bin/env bash
# Makes an authority and the certificates that it signs: what is missing and
# nothing else, so that it can be run again at any time.
#
#   tls.sh DIR [--server=NAME[,SAN...]]... [--worker=NAME[,SAN...]]...
#              [--client=NAME]... [--days=365] [--ca-days=3650] [--renew[=30]]
#
#   --server  a coordinator's; its names and addresses, as clients call it
#   --worker  a worker's; the name, and what --address of it says, with which
#             other workers call it
#   --client  a person's or program's; the name is the user where the
#             coordinator asks for certificates and there are no tokens
#   --days    how long certificates are valid; --ca-days: the authority's
#   --renew   also a new one for each named certificate that ends within so
#             many days or lacks a name that is asked for now. Without it one
#             that has ended or lacks a name is an error
#
# DIR/ca/{ca.pem,ca.key}: keep ca.key away from the cluster's machines.
# DIR/NAME/current/{cert.pem,key.pem,ca.pem}: what the machine needs. `current`
# is a link to a numbered folder that is never changed; renewing switches it,
# so that running programs see a certificate and its key change together.
#
#   tls.sh tls --server=train.example.com,10.0.0.1 --worker=rack1,10.0.0.2 \
#     --client=alice
set -euo pipefail
umask 077

fail() {
  echo "tls.sh: $*" >&2
  exit 1
}
usage() {
  sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
}

dir="" days=365 ca_days=3650 renew="" wanted=()
for argument; do
  value=${argument#*=}
  case "$argument" in
    -h | --help) usage && exit 0 ;;
    --server=?* | --worker=?* | --client=?*)
      wanted+=("${argument%%=*}" "$value") ;;
    --days=?* | --ca-days=?* | --renew=?*)
      if ! [[ $value =~ ^[1-9][0-9]{0,4}$ ]]; then
        fail "${argument%%=*}: '$value' is no number of days"
      fi
      case "$argument" in
        --days=*) days=$value ;;
        --ca-days=*) ca_days=$value ;;
        *) renew=$value ;;
      esac
      ;;
    --renew) renew=30 ;;
    -*) usage >&2 && fail "unknown argument '$argument'" ;;
    *) [ -z "$dir" ] || fail "two folders: '$dir' and '$argument'"
       dir=$argument ;;
  esac
done
[ -n "$dir" ] || { usage >&2; exit 2; }
[ "${renew:-0}" -lt "$days" ] ||
  fail "--renew=$renew would renew what was made just now (--days=$days)"
command -v openssl >/dev/null || fail "openssl is not installed"

# sans NAME[,SAN...]: each a DNS name or an address, as openssl wants them.
sans() {
  local one all=()
  IFS=, read -ra given <<<"$1"
  for one in "${given[@]}"; do
    [[ ! $one =~ ^\*\.[^.]+$ ]] ||
      fail "'$one': clients take no wildcard below a single name; name each"
    if [[ $one =~ ^[0-9]{1,3}(\.[0-9]{1,3}){3}$ || $one == *:* ]]; then
      all+=("IP:$one")
    elif [[ $one =~ ^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$ ]]; then
      all+=("DNS:$one")
    else
      fail "'$one' is neither a host name nor an address"
    fi
  done
  (IFS=,; echo "${all[*]}")
}

new_key() {
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 \
    -out "$1" 2>/dev/null || openssl genpkey -algorithm EC \
    -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null ||
    fail "cannot write $1"
}

# Two runs at once would both think that something is missing.
mkdir -p "$dir"
exec 9>>"$dir/.lock"
flock -n 9 || fail "another tls.sh works in $dir"

ca=$dir/ca
if [ ! -e "$ca/ca.pem" ]; then
  [ ! -e "$ca/ca.key" ] || fail "$ca/ca.key is there, $ca/ca.pem is not"
  mkdir -p "$ca"
  new_key "$ca/new.key"
  openssl req -x509 -new -key "$ca/new.key" -subj "/CN=comera authority" \
    -days "$ca_days" -addext "basicConstraints=critical,CA:TRUE,pathlen:0" \
    -addext "keyUsage=critical,keyCertSign,cRLSign" -out "$ca/new.pem"
  mv "$ca/new.key" "$ca/ca.key"
  chmod 644 "$ca/new.pem"
  mv "$ca/new.pem" "$ca/ca.pem"
  echo "made $ca/ca.pem" >&2
fi

# make ROLE NAME SANS: the next numbered folder, and the link to it.
make() {
  local role=$1 name=$2 names=$3 folder=$dir/$2 number=1 use
  while [ -e "$folder/$number" ]; do number=$((number + 1)); done
  case "$role" in
    --server) use=serverAuth ;;
    # Workers also answer other workers.
    --worker) use=serverAuth,clientAuth ;;
    --client) use=clientAuth ;;
  esac
  [ -r "$ca/ca.key" ] ||
    fail "$folder is to be signed, and $ca/ca.key is not here"
  # Clients would refuse it anyway once its authority has ended.
  openssl x509 -in "$ca/ca.pem" -noout -checkend $((days * 86400)) \
    >/dev/null || fail "$ca/ca.pem ends before $days days: a new authority" \
    "needs a folder of its own"
  rm -rf "$folder/new"
  mkdir -p "$folder/new"
  new_key "$folder/new/key.pem"
  {
    echo "basicConstraints=critical,CA:FALSE"
    echo "keyUsage=critical,digitalSignature"
    echo "extendedKeyUsage=$use"
    [ "$role" = --client ] || echo "subjectAltName=$names"
  } >"$folder/new/extensions"
  openssl req -new -key "$folder/new/key.pem" -subj "/CN=$name" |
    openssl x509 -req -CA "$ca/ca.pem" -CAkey "$ca/ca.key" -days "$days" \
      -set_serial "0x$(openssl rand -hex 16)" \
      -extfile "$folder/new/extensions" -out "$folder/new/cert.pem" \
      2>/dev/null || fail "cannot sign for $name"
  openssl verify -CAfile "$ca/ca.pem" "$folder/new/cert.pem" >/dev/null ||
    fail "$folder/new/cert.pem does not verify"
  rm "$folder/new/extensions"
  cp "$ca/ca.pem" "$folder/new/ca.pem"
  chmod 644 "$folder/new/cert.pem" "$folder/new/ca.pem"
  chmod 600 "$folder/new/key.pem"
  mv "$folder/new" "$folder/$number"
  ln -s "$number" "$folder/.current"
  mv -T "$folder/.current" "$folder/current"
  echo "made $folder/$number ($role of ${names:-$name})" >&2
}

# serves ROLE FILE SANS: whether the certificate will do.
serves() {
  local purposes=sslclient purpose one check
  case "$1" in
    --server) purposes=sslserver ;;
    --worker) purposes="sslserver sslclient" ;;
  esac
  for purpose in $purposes; do
    openssl verify -CAfile "$ca/ca.pem" -purpose "$purpose" "$2" \
      >/dev/null 2>&1 || return 1
  done
  for one in ${3//,/ }; do
    check=-checkhost
    [[ $one != IP:* ]] || check=-checkip
    openssl x509 -in "$2" -noout "$check" "${one#*:}" |
      grep "does match" >/dev/null || return 1
  done
}

for ((i = 0; i < ${#wanted[@]}; i += 2)); do
  role=${wanted[i]} name=${wanted[i + 1]%%,*}
  [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9.:_-]{0,63}$ && $name != ca ]] ||
    fail "$role: '$name' cannot be a certificate's name"
  if [ "$role" = --client ]; then
    names=""
    [ "$name" = "${wanted[i + 1]}" ] || fail "--client takes one name"
  else
    names=$(sans "${wanted[i + 1]}")
  fi
  current=$dir/$name/current/cert.pem
  if [ ! -e "$current" ]; then
    make "$role" "$name" "$names"
  elif ! serves "$role" "$current" "$names" ||
    ! openssl x509 -in "$current" -noout \
      -checkend $((${renew:-0} * 86400)) >/dev/null; then
    [ -n "$renew" ] ||
      fail "$current has ended or does not serve a ${role#--}" \
        "${names:-$name}: --renew makes a new one"
    make "$role" "$name" "$names"
  fi
done
