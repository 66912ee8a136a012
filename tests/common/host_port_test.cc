// Tells addresses of the form host:port from other targets of gRPC.

#include "common/host_port.h"

#include <string>

#include "gtest/gtest.h"

namespace comera {
namespace {

TEST(HostPortTest, HostAndPort) {
  for (const char* address :
       {"train.example.com:7400", "10.0.0.2:1", "127.0.0.1:65535",
        "localhost:443", "rack-1:80", "a_b.c:80", "[::1]:80",
        "[2001:db8::10.0.0.1]:7401", "w1:1", "Unix7:80", "dns.example:53",
        "train.example.com.:7400"}) {
    EXPECT_TRUE(IsHostPort(address)) << address;
  }
}

TEST(HostPortTest, NothingElse) {
  for (const std::string& address : {std::string(),
                                     std::string("host"),
                                     std::string(":80"),
                                     std::string("host:"),
                                     std::string("host:0"),
                                     std::string("host:65536"),
                                     std::string("host:99999999999"),
                                     std::string("host:080"),
                                     std::string("host:+80"),
                                     std::string("host:-1"),
                                     std::string("host:80 "),
                                     std::string(" host:80"),
                                     std::string("ho st:80"),
                                     std::string("host:80,other:80"),
                                     std::string("unix:/tmp/sock"),
                                     std::string("unix:///tmp/sock:80"),
                                     std::string("unix:sock:80"),
                                     std::string("unix:80"),
                                     std::string("unix.:80"),
                                     std::string(".:80"),
                                     std::string("host..:80"),
                                     std::string("UNIX:80"),
                                     std::string("unix-abstract:80"),
                                     std::string("dns:80"),
                                     std::string("dns:///host:80"),
                                     std::string("dns://8.8.8.8/host:80"),
                                     std::string("ipv4:10.0.0.1:80"),
                                     std::string("ipv4:80"),
                                     std::string("ipv6:[::1]:80"),
                                     std::string("xds:80"),
                                     std::string("vsock:80"),
                                     std::string("http://host:80"),
                                     std::string("user@host:80"),
                                     std::string("host/path:80"),
                                     std::string("host%2f:80"),
                                     std::string("::1:80"),
                                     std::string("[::1]"),
                                     std::string("[]:80"),
                                     std::string("[::1:80"),
                                     std::string("[host]:80"),
                                     std::string("[fe80::1%eth0]:80"),
                                     std::string("[1.2.3.4]:80"),
                                     std::string("-host:80"),
                                     std::string(".host:80"),
                                     std::string("host..name:80"),
                                     std::string("host\n:80"),
                                     std::string("ho\0st:80", 8),
                                     std::string("[::1\0x]:80", 10),
                                     std::string(64, 'a') + ":80",
                                     std::string(300, 'a') + ":80",
                                     std::string("h\xc3\xb6st:80")}) {
    EXPECT_FALSE(IsHostPort(address)) << address;
  }
}

}  // namespace
}  // namespace comera
