#ifndef COMERA_COMMON_VERSION_H_
#define COMERA_COMMON_VERSION_H_

namespace comera {
inline constexpr char kVersion[] = "0.1.0";
}  // namespace comera

#endif  // COMERA_COMMON_VERSION_H_
