// Makes a certificate authority for a test, and certificates that it signs.
#ifndef COMERA_TESTS_SECURITY_CERTIFICATES_H_
#define COMERA_TESTS_SECURITY_CERTIFICATES_H_

#include <string>

namespace comera {

// Makes files NAME.crt and NAME.key (PEM) below a folder with the openssl
// program; each call replaces earlier files by renaming.
class Certificates {
 public:
  // Makes an authority: ca.crt and ca.key.
  explicit Certificates(std::string folder,
                        const std::string& authority = "ca");

  // Issues a certificate for the host names and addresses in
  // `alternative_names`, e.g. "DNS:localhost,IP:127.0.0.1"; its common name is
  // `name`.
  void Issue(const std::string& name, const std::string& alternative_names);

  std::string Certificate(const std::string& name) const {
    return folder_ + "/" + name + ".crt";
  }
  std::string Key(const std::string& name) const {
    return folder_ + "/" + name + ".key";
  }
  std::string Authority() const { return Certificate(authority_); }

 private:
  void Run(const std::string& command) const;

  const std::string folder_;
  const std::string authority_;
};

}  // namespace comera

#endif  // COMERA_TESTS_SECURITY_CERTIFICATES_H_
