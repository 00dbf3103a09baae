// nvrtc.cpp: NVRTC as programs call it. NVIDIA's own library compiles, which needs no GPU; it is asked for PTX where a program
// asks for machine code, since PTX is what the simulator runs.
#include "channel.h"

#if __has_include(<nvrtc.h>)
#include <dlfcn.h>
#include <nvrtc.h>

#include <string>

namespace {

/// A function of NVIDIA's library; null where that is not installed.
template <typename F>
F real(const char* name) {
    static void* library = dlopen(WARPSCHOOL_NVRTC, RTLD_NOW | RTLD_LOCAL);
    return library ? reinterpret_cast<F>(dlsym(library, name)) : nullptr;
}

}  // namespace

#define FORWARD(name, parameters, arguments)                  \
    API nvrtcResult name parameters {                         \
        static const auto found = real<decltype(&name)>(#name); \
        return found ? found arguments : NVRTC_ERROR_INTERNAL_ERROR; \
    }
FORWARD(nvrtcVersion, (int* major, int* minor), (major, minor))
FORWARD(nvrtcGetNumSupportedArchs, (int* count), (count))
FORWARD(nvrtcGetSupportedArchs, (int* archs), (archs))
FORWARD(nvrtcCreateProgram, (nvrtcProgram* p, const char* text, const char* name, int count, const char* const* headers, const char* const* names),
        (p, text, name, count, headers, names))
FORWARD(nvrtcDestroyProgram, (nvrtcProgram* p), (p))
FORWARD(nvrtcGetPTXSize, (nvrtcProgram p, size_t* size), (p, size))
FORWARD(nvrtcGetPTX, (nvrtcProgram p, char* text), (p, text))
FORWARD(nvrtcGetProgramLogSize, (nvrtcProgram p, size_t* size), (p, size))
FORWARD(nvrtcGetProgramLog, (nvrtcProgram p, char* text), (p, text))
FORWARD(nvrtcAddNameExpression, (nvrtcProgram p, const char* name), (p, name))
FORWARD(nvrtcGetLoweredName, (nvrtcProgram p, const char* name, const char** lowered), (p, name, lowered))
API nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t* size) { return nvrtcGetPTXSize(p, size); }
API nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char* text) { return nvrtcGetPTX(p, text); }
API const char* nvrtcGetErrorString(nvrtcResult error) {
    static const auto found = real<decltype(&nvrtcGetErrorString)>("nvrtcGetErrorString");
    return found ? found(error) : "NVRTC is not installed";
}
API nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int count, const char* const* options) {
    static const auto found = real<decltype(&nvrtcCompileProgram)>("nvrtcCompileProgram");
    std::vector<std::string> kept;
    for (int k = 0; k < count; k++) {
        std::string option = options[k];
        size_t at = option.find("sm_");  // for a real GPU: no machine code, and of an architecture that the simulator reads
        if (at != std::string::npos && option.find("arch") != std::string::npos) option = "-arch=compute_80";
        kept.push_back(option);
    }
    kept.push_back("-lineinfo");
    kept.push_back("--include-path=" WARPSCHOOL_CUDA_HEADERS);
    kept.push_back("--include-path=" WARPSCHOOL_CUDA_HEADERS "/cccl");  // of CUDA's own headers, cooperative_groups.h asks for it
    std::vector<const char*> words;
    for (auto& option : kept) words.push_back(option.c_str());
    return found ? found(p, static_cast<int>(words.size()), words.data()) : NVRTC_ERROR_INTERNAL_ERROR;
}
#endif
