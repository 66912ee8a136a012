// A library without NVML's functions, to test how loading it fails.

extern "C" int not_nvml() { return 0; }
