extern "C" int not_nvml() { return 0; }
