// channel.cpp: the line to the simulator, the memory that both see, and what is told when the program dies.
#include "channel.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <string>

namespace warp {

Arena arena;
std::vector<uint64_t> device_values;  // of DEVICE_PROPERTIES
std::string device_name;

namespace {

int line = -1;
pid_t owner = 0;  // a process that it forks has no device
std::recursive_mutex line_mutex;
std::once_flag connected;
std::atomic<int> fatal_error{cudaSuccess};
thread_local cudaError_t last_error = cudaSuccess;
thread_local bool inside_handler = false;

std::mutex managed_mutex;
std::map<char*, size_t> managed;
std::atomic<bool> managed_locked{false};

[[noreturn]] void lost() {
    fprintf(stderr, "warpschool: the simulator's process is gone\n");
    _exit(70);
}

void write_all(const char* data, size_t size) {
    while (size) {
        ssize_t n = ::send(line, data, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) lost();
        data += n, size -= n;
    }
}

void read_all(char* data, size_t size) {
    while (size) {
        ssize_t n = ::recv(line, data, size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) lost();
        data += n, size -= n;
    }
}

char* mapped(void* at, size_t size, int protection, int flags, int file) {
    void* found = mmap(at, size, protection, flags, file, 0);
    if (found == MAP_FAILED || (at && found != at)) {
        fprintf(stderr, "warpschool: cannot map the simulated device's memory (%zu bytes): %s\n", size, strerror(errno));
        _exit(70);
    }
    return static_cast<char*>(found);
}

// ---------------------------------------------------------------- signals

uintptr_t program_counter(void* context) {
#if defined(__x86_64__)
    return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return static_cast<ucontext_t*>(context)->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

/// The stack at a fault: the instruction itself, then who called.
void add_fault_stack(Message& message, void* context) {
    void* frames[kCallers + 8];
    int count = backtrace(frames, kCallers + 8), first = 0;
    uintptr_t at = program_counter(context);
    for (int k = 0; k < count; k++)
        if (reinterpret_cast<uintptr_t>(frames[k]) == at) first = k + 1;
    message.u64(1 + count - first).u64(at + 1);  // + 1 as return addresses have: who reads it takes 1 off
    for (int k = first; k < count; k++) message.address(frames[k]);
}

void on_fault(int number, siginfo_t* info, void* context) {
    if (!inside_handler) {
        inside_handler = true;
        char* at = static_cast<char*>(info->si_addr);
        if ((number == SIGSEGV || number == SIGBUS) && arena.holds(at)) {
            bool early = managed_locked.exchange(false);
            if (early) {
                std::lock_guard<std::mutex> hold(managed_mutex);
                auto found = managed.upper_bound(at);
                early = found != managed.begin() && at < std::prev(found)->first + std::prev(found)->second;
            }
            Message message(TOUCHED);
            message.address(at).u64(early);
            add_fault_stack(message, context);
            message.ask();
            if (early) {
                managed_unlock();
                inside_handler = false;
                return;
            }
        } else {
            Message message(CRASH);
            message.u64(number).address(at);
            add_fault_stack(message, context);
            message.ask();
        }
    }
    signal(number, SIG_DFL);
    raise(number);
}

void watch_signals() {
    static char stack[1 << 16];
    stack_t other = {};
    other.ss_sp = stack, other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
        struct sigaction before;
        sigaction(number, nullptr, &before);
        if (before.sa_handler == SIG_DFL) sigaction(number, &action, nullptr);
    }
}

// ---------------------------------------------------------------- beginning and end

void at_exit(int status, void*) {
    if (line < 0 || getpid() != owner) return;
    fflush(nullptr);
    graph_memory_close();
    Answer answer = Message(GOODBYE).u64(status).ask();
    fflush(nullptr);
    line = -1;
    if (int code = answer.u64(); code != status) _exit(code);
}

/// The simulator of a program that was not started by `warpschool run`: a process of its own.
void start_simulator(int ends[2], int memory) {
    const char* python = getenv("WARPSCHOOL_PYTHON");
    if (!python) python = WARPSCHOOL_PYTHON;
    std::string numbers = std::to_string(ends[1]) + "," + std::to_string(memory);
    pid_t child = fork();
    if (child == 0) {
        if (fork() != 0) _exit(0);  // not the program's child: wait() must not find it
        setpgid(0, 0);
        fcntl(ends[1], F_SETFD, 0), fcntl(memory, F_SETFD, 0);
        execlp(python, python, "-m", "warpschool.cli.attached", numbers.c_str(), static_cast<char*>(nullptr));
        fprintf(stderr, "warpschool: cannot start %s: %s\n", python, strerror(errno));
        _exit(70);
    }
    waitpid(child, nullptr, 0);
}

/// What lies where in this process, as /proc/PID/maps has it, which a confined process may not read.
std::string own_maps() {
    std::string text;
    dl_iterate_phdr([](dl_phdr_info* object, size_t, void* found) {
        const char* name = *object->dlpi_name ? object->dlpi_name : reinterpret_cast<const char*>(getauxval(AT_EXECFN));
        char* path = name ? realpath(name, nullptr) : nullptr;
        const char* shown = path ? path : name && *name == '/' ? name : nullptr;
        char row[96];
        for (int k = 0; shown && k < object->dlpi_phnum; k++) {
            const auto& part = object->dlpi_phdr[k];
            if (part.p_type != PT_LOAD) continue;
            unsigned long start = (object->dlpi_addr + part.p_vaddr) & ~0xfffUL, end = object->dlpi_addr + part.p_vaddr + part.p_memsz;
            snprintf(row, sizeof row, "%lx-%lx r-xp %lx 00:00 0 ", start, end, static_cast<unsigned long>(part.p_offset));
            *static_cast<std::string*>(found) += std::string(row) + shown + "\n";
        }
        free(path);
        return 0;
    }, &text);
    return text;
}

void start_line() {
    int memory = -1;
    const char* given = getenv("WARPSCHOOL_PROGRAM");
    if (given && sscanf(given, "%d,%d", &line, &memory) == 2) {
        fcntl(line, F_SETFD, FD_CLOEXEC), fcntl(memory, F_SETFD, FD_CLOEXEC);
        unsetenv("WARPSCHOOL_PROGRAM");  // programs that this one starts have simulators of their own
    } else {
        int ends[2];
        memory = memfd_create("warpschool", MFD_CLOEXEC);
        if (memory < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) lost();
        line = ends[0];
        start_simulator(ends, memory);
        close(ends[1]);
    }
    owner = getpid();
    Answer hello = Message(HELLO).u64(getpid()).text(own_maps().c_str()).ask();
    char* base = reinterpret_cast<char*>(hello.u64());
    arena.capacity = hello.u64();
    arena.alias = mapped(nullptr, arena.capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory);
    arena.base = mapped(base, arena.capacity, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, memory);
    size_t count = 0;
#define COUNT(name) count++;
    DEVICE_PROPERTIES(COUNT)
    for (size_t k = 0; k < count; k++) device_values.push_back(hello.u64());
    size_t length = hello.u64();
    device_name.assign(hello.data.data() + hello.at, length);
    close(memory);
    void* first[1];
    backtrace(first, 1);  // loads what it needs: a handler must not
    watch_signals();
    on_exit(at_exit, nullptr);
}

}  // namespace

void connect() { std::call_once(connected, start_line); }

// ---------------------------------------------------------------- messages

Message::Message(Request request) : buffer_([]() -> std::vector<char>& {
    // never destroyed: destructors of the program's variables call us when those of this thread are through
    thread_local std::vector<char>* buffers = new std::vector<char>[2];
    return buffers[inside_handler];
}()) {
    buffer_.clear();
    u64(0).u64(request);
}

Message& Message::u64(uint64_t value) {
    size_t at = buffer_.size();
    buffer_.resize(at + 8);
    memcpy(&buffer_[at], &value, 8);
    return *this;
}

Message& Message::bytes(const void* data, size_t size) {
    u64(size);
    size_t at = buffer_.size();
    buffer_.resize(at + (size + 7) / 8 * 8);
    if (size) memcpy(&buffer_[at], data, size);
    return *this;
}

Message& Message::text(const char* s) { return bytes(s, strlen(s)); }

Message& Message::callers() {
    void* frames[kCallers];
    int count = backtrace(frames, kCallers);
    u64(count);
    for (int k = 0; k < count; k++) address(frames[k]);
    return *this;
}

void Message::send() {
    uint64_t size = buffer_.size();
    memcpy(&buffer_[0], &size, 8);
    std::lock_guard<std::recursive_mutex> hold(line_mutex);
    if (line >= 0) write_all(buffer_.data(), size);
}

Answer Message::ask() {
    Answer answer;
    uint64_t head[3];
    {
        std::lock_guard<std::recursive_mutex> hold(line_mutex);
        if (line < 0) {
            answer.error = cudaErrorCudartUnloading;
            return answer;
        }
        send();
        read_all(reinterpret_cast<char*>(head), sizeof head);
        answer.data.resize(head[0] - sizeof head);
        read_all(answer.data.data(), answer.data.size());
    }
    answer.error = static_cast<cudaError_t>(head[1]);
    answer.at = (head[2] + 7) / 8 * 8;
    if (head[2]) {
        fwrite(answer.data.data(), 1, head[2], stdout);
        if (answer.error != cudaSuccess) fflush(stdout);
    }
    return answer;
}

uint64_t Answer::u64() {
    uint64_t value = 0;
    if (at + 8 <= data.size()) memcpy(&value, &data[at], 8);
    at += 8;
    return value;
}

// ---------------------------------------------------------------- errors

cudaError_t fatal() { return static_cast<cudaError_t>(fatal_error.load()); }
void set_fatal(cudaError_t error) {
    int none = cudaSuccess;
    fatal_error.compare_exchange_strong(none, error);
}
void set_last(cudaError_t error) { last_error = error; }

cudaError_t result(cudaError_t error, const char* call) {
    if (error != cudaSuccess && error != cudaErrorNotReady) {
        last_error = error;
        Message(API_ERROR).u64(error).text(call).callers().send();
    }
    return error;
}

cudaError_t unsupported(const char* call) {
    connect();
    Message(UNSUPPORTED).text(call).callers().ask();
    return result(cudaErrorNotSupported, call);
}

cudaError_t synchronize(uint64_t what, uint64_t stream, bool asked) {
    Message message(SYNCHRONIZE);
    message.u64(what).u64(stream);
    if (asked) message.callers();
    else message.u64(0);
    cudaError_t error = message.ask().error;
    managed_unlock();
    if (error != cudaSuccess) set_fatal(error);
    return error;
}

// ---------------------------------------------------------------- memory that the program may touch

void host_access(void* start, size_t bytes, bool allowed) {
    uintptr_t page = sysconf(_SC_PAGESIZE);
    uintptr_t first = reinterpret_cast<uintptr_t>(start) / page * page;
    uintptr_t last = (reinterpret_cast<uintptr_t>(start) + bytes + page - 1) / page * page;
    mprotect(reinterpret_cast<void*>(first), last - first, allowed ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void managed_add(void* start, size_t bytes) {
    std::lock_guard<std::mutex> hold(managed_mutex);
    managed[static_cast<char*>(start)] = bytes;
    if (!managed_locked) host_access(start, bytes, true);
}

void managed_remove(void* start) {
    std::lock_guard<std::mutex> hold(managed_mutex);
    auto found = managed.find(static_cast<char*>(start));
    if (found == managed.end()) return;
    host_access(start, found->second, false);
    managed.erase(found);
}

void managed_lock() {
    std::lock_guard<std::mutex> hold(managed_mutex);
    if (managed.empty() || managed_locked.exchange(true)) return;
    for (auto& [start, bytes] : managed) host_access(start, bytes, false);
}

void managed_unlock() {
    std::lock_guard<std::mutex> hold(managed_mutex);
    managed_locked = false;
    for (auto& [start, bytes] : managed) host_access(start, bytes, true);
}

}  // namespace warp

API cudaError_t cudaGetLastError() {
    warp::connect();
    if (warp::last_error != cudaSuccess) warp::Message(ERROR_SEEN).send();
    cudaError_t error = warp::fatal() != cudaSuccess ? warp::fatal() : warp::last_error;
    warp::last_error = cudaSuccess;
    return error;
}

API cudaError_t cudaPeekAtLastError() {
    warp::connect();
    if (warp::last_error != cudaSuccess) warp::Message(ERROR_SEEN).send();
    return warp::fatal() != cudaSuccess ? warp::fatal() : warp::last_error;
}

namespace {
/// The line is there before the program's own variables are made; behind this library's.
struct Begin {
    Begin() { warp::connect(); }
} begin;
}  // namespace
