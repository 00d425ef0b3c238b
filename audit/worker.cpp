// A parent and its workers talk over one socket each: frames of a length, a letter and CBOR (which, unlike JSON
// text, carries names that are not UTF-8). A worker tells what it begins before it begins, so the parent knows
// what killed it, and a fresh worker goes on behind that.
//
// Limits of a worker: RLIMIT_DATA (not RLIMIT_AS: the readers map nothing, and the libraries' own mappings are
// none of the file's doing), no core file, no open file but its socket, standard streams on /dev/null, and death
// with its parent. Time is watched by the parent, for a worker that hangs cannot watch itself.
#include "worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "record_codec.hpp"

namespace cudeploy {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // shadow memory counts as data, and reports go to standard error
#else
constexpr bool sanitized = false;
#endif

constexpr std::uint32_t longest_frame = 512u << 20;  // bytes
constexpr int worker_socket = 3;

enum class Frame : char {
  task = 'T',            // parent to worker: [path, named, skip]
  package = 'P',         // all others: worker to parent; [path, unpacking]
  begin = 'B',           // [path, size]
  records = 'R',         // [record...]
  link = 'L',            // [path, target]
  loader_folders = 'C',  // [path, [folder...]]
  answer = 'W',          // the bytes as they are
  alive = 'A',
  memory = 'M',  // the worker ran out of memory and ends
  failed = 'F',  // [message]; the worker ends
  end = 'E',     // of the task
};

struct [[gnu::packed]] Header {
  std::uint32_t size;
  Frame frame;
};

bool send_all(int socket, const void* data, std::size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t sent = ::send(socket, from, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool send_frame(int socket, Frame frame, const std::vector<std::uint8_t>& bytes) {
  if (bytes.size() > longest_frame) throw std::runtime_error("more was found than a record can hold");
  Header header{static_cast<std::uint32_t>(bytes.size()), frame};
  return send_all(socket, &header, sizeof header) && send_all(socket, bytes.data(), bytes.size());
}

bool send_frame(int socket, Frame frame, const Json& content = nullptr) {
  return send_frame(socket, frame, Json::to_cbor(content));
}

bool receive_all(int socket, void* data, std::size_t size) {
  char* to = static_cast<char*>(data);
  while (size > 0) {
    ssize_t got = ::recv(socket, to, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// ---- in the worker ------------------------------------------------------------------------------------------

/// Writes to the parent. A parent that is gone ends the worker.
class SocketSink final : public Sink {
 public:
  void package(const std::string& path, Unpacking unpacking) override {
    send(Frame::package, Json::array({path, to_string(unpacking)}));
  }
  void begin(const std::string& path, std::uint64_t size) override { send(Frame::begin, Json::array({path, size})); }
  void records(std::vector<FileRecord> files) override {
    if (!send_frame(worker_socket, Frame::records, encode(files))) _exit(0);
  }
  void link(const std::string& path, const std::string& target) override {
    send(Frame::link, Json::array({path, target}));
  }
  void loader_folders(const std::string& path, const std::vector<std::string>& folders) override {
    send(Frame::loader_folders, Json::array({path, folders}));
  }
  void answer(const std::vector<std::uint8_t>& bytes) override {
    if (!send_frame(worker_socket, Frame::answer, bytes)) _exit(0);
  }
  void alive() override { send(Frame::alive); }

  void send(Frame frame, const Json& content = nullptr) {
    if (!send_frame(worker_socket, frame, content)) _exit(0);
  }
};

void limit(int resource, rlim_t value) {
  rlimit now{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &now) != 0) return;
  now.rlim_cur = std::min(value, now.rlim_max);
  setrlimit(static_cast<__rlimit_resource_t>(resource), &now);
}

/// A library that frees a tree may need memory to do so, where it promised not to throw: that is want of memory too,
/// and no crash. Nothing is asked for here.
[[noreturn]] void end_for_want_of_memory() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    constexpr std::uint8_t null = 0xf6;  // in CBOR
    const Header header{sizeof null, Frame::memory};
    send_all(worker_socket, &header, sizeof header);
    send_all(worker_socket, &null, sizeof null);
    _exit(0);
  } catch (...) {
  }
  std::abort();
}

/// After fork: nothing of the parent's is left but its memory.
void become_worker(int socket, pid_t parent, const WorkerLimits& limits) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  signal(SIGXFSZ, SIG_IGN);  // a full quota is an error of write(), no death
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  int nowhere = open("/dev/null", O_RDWR);
  for (int stream : {0, 1, 2})
    if (nowhere >= 0 && !(sanitized && stream == 2)) dup2(nowhere, stream);
  if (socket != worker_socket) dup2(socket, worker_socket);
  if (close_range(worker_socket + 1, ~0u, 0) != 0)
    for (int descriptor = worker_socket + 1; descriptor < sysconf(_SC_OPEN_MAX); ++descriptor) close(descriptor);

  limit(RLIMIT_CORE, 0);
  if (!sanitized) limit(RLIMIT_DATA, limits.memory);
  std::set_terminate(end_for_want_of_memory);
  // Names in packages are bytes; a library that wants them in the locale's encoding gets one that holds them all.
  std::setlocale(LC_CTYPE, "C.UTF-8");
}

[[noreturn]] void work(const Reader& reader) {
  SocketSink sink;
  for (;;) {
    Header header{};
    if (!receive_all(worker_socket, &header, sizeof header)) _exit(0);
    std::vector<std::uint8_t> bytes(header.size);
    if (!receive_all(worker_socket, bytes.data(), bytes.size())) _exit(0);
    try {
      Json content = Json::from_cbor(bytes);
      reader(Task{content[0].get<std::string>(), content[1].get<bool>(), content[2].get<std::uint64_t>()}, sink);
      sink.send(Frame::end);
    } catch (const std::bad_alloc&) {
      sink.send(Frame::memory);
      _exit(0);
    } catch (const std::exception& error) {
      sink.send(Frame::failed, Json::array({error.what()}));
      _exit(0);
    }
  }
}

// ---- in the parent ------------------------------------------------------------------------------------------

struct Item {
  std::string path;
  std::uint64_t size = 0;
};

struct Worker {
  pid_t process = -1;
  int socket = -1;
  std::vector<std::uint8_t> received;
  std::optional<std::size_t> task;  // index; none: idle
  std::optional<Item> item;         // begun, not yet told
  std::uint64_t items = 0;          // begun in this task, those of earlier workers included
  std::uint64_t age = 0;            // begun in this process before the item at hand
  bool last_task = false;           // none follows: it ends with the one that it has
  bool ran_out_of_memory = false;
  std::string failure;  // what it said before it ended
  Clock::time_point deadline;
};

std::string death(int status) {
  if (WIFSIGNALED(status)) {
    int number = WTERMSIG(status);
    const char* words = sigdescr_np(number);
    std::string name = words != nullptr ? words : "unknown";
    for (char& letter : name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    std::string why = number == SIGKILL ? ", perhaps by the system for want of memory" : "";
    return fmt::format("reader died: signal {} ({}){}", number, name, why);
  }
  return fmt::format("reader died: it ended early with exit status {}", WEXITSTATUS(status));
}

class Pool {
 public:
  Pool(std::span<const Task> tasks, const Reader& reader, const WorkerLimits& limits)
      : tasks_(tasks), reader_(reader), limits_(limits), readings_(tasks.size()), deaths_(tasks.size()) {
    for (std::size_t i = 0; i < tasks.size(); ++i) waiting_.push_back({i, tasks[i].skip});
  }

  ~Pool() {
    for (Worker& worker : workers_) end(worker);
  }

  std::vector<Reading> run() {
    std::size_t most = limits_.workers != 0 ? limits_.workers : cores();
    most = std::min(most, tasks_.size());
    for (;;) {
      while (workers_.size() < most && workers_.size() < waiting_.size() + busy()) {
        if (!start()) {
          if (workers_.empty())
            throw std::runtime_error(fmt::format("cudeploy: error: cannot start a reader: {}", std::strerror(errno)));
          break;
        }
      }
      for (std::size_t i = 0; i < workers_.size() && !waiting_.empty(); ++i)
        if (!workers_[i].task && !workers_[i].last_task) give(workers_[i]);
      if (busy() == 0 && waiting_.empty()) break;
      listen();
      tell_progress();
    }
    return std::move(readings_);
  }

 private:
  void tell_progress() {
    if (!limits_.progress) return;
    const auto reading =
        std::find_if(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.task.has_value(); });
    if (reading == workers_.end()) return;
    limits_.progress(tasks_.size() - waiting_.size() - busy(), tasks_.size(),
                     reading->item ? reading->item->path : tasks_[*reading->task].path);
  }

  struct Waiting {
    std::size_t task;
    std::uint64_t skip;
  };

  static std::size_t cores() {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return static_cast<std::size_t>(std::clamp(count, 1, 64));
  }

  std::size_t busy() const {
    return static_cast<std::size_t>(
        std::count_if(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.task.has_value(); }));
  }

  bool start() {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return false;
    pid_t parent = getpid();
    pid_t process = fork();
    if (process < 0) {
      int error = errno;
      close(pair[0]);
      close(pair[1]);
      errno = error;
      return false;
    }
    if (process == 0) {
      become_worker(pair[1], parent, limits_);
      work(reader_);
    }
    close(pair[1]);
    Worker worker;
    worker.process = process;
    worker.socket = pair[0];
    workers_.push_back(std::move(worker));
    return true;
  }

  void give(Worker& worker) {
    Waiting next = waiting_.front();
    waiting_.pop_front();
    worker.task = next.task;
    worker.items = next.skip;
    worker.item.reset();
    const Task& task = tasks_[next.task];
    // A worker that cannot be written to is dead; listening will tell.
    send_frame(worker.socket, Frame::task, Json::array({task.path, task.named, next.skip}));
    set_deadline(worker);
    // Its memory is given back on its own core while what it told is taken here.
    worker.last_task = waiting_.empty();
    if (worker.last_task) shutdown(worker.socket, SHUT_WR);
  }

  void set_deadline(Worker& worker) { worker.deadline = Clock::now() + allowed(worker); }

  std::chrono::milliseconds allowed(const Worker& worker) const {
    constexpr std::uint64_t most = 4096;  // MiB, so that a claimed size buys no endless time
    std::uint64_t mebibytes = worker.item ? std::min(worker.item->size >> 20, most) : 0;
    return limits_.silence + limits_.per_mebibyte * static_cast<std::int64_t>(mebibytes);
  }

  void listen() {
    std::vector<pollfd> sockets;
    auto now = Clock::now();
    auto next = now + std::chrono::hours(1);
    for (const Worker& worker : workers_) {
      sockets.push_back({worker.socket, POLLIN, 0});
      if (worker.task) next = std::min(next, worker.deadline);
    }
    if (limits_.progress) next = std::min(next, now + std::chrono::milliseconds(200));
    auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(std::max(next - now, Clock::duration::zero()));
    int ready = poll(sockets.data(), sockets.size(), static_cast<int>(wait.count()) + 1);
    if (ready < 0 && errno != EINTR)
      throw std::runtime_error(fmt::format("cudeploy: error: cannot wait for a reader: {}", std::strerror(errno)));
    if (Clock::now() - now > wait + std::chrono::seconds(2))  // we were stopped ourselves, and they perhaps with us
      for (Worker& worker : workers_) set_deadline(worker);

    for (std::size_t i = sockets.size(); i-- > 0;) {  // from the back: a dead worker is taken out
      if (ready > 0 && sockets[i].revents != 0 && !receive(workers_[i])) {
        bury(i, "");
      } else if (workers_[i].task && Clock::now() >= workers_[i].deadline) {
        auto seconds = std::chrono::duration<double>(allowed(workers_[i])).count();
        bury(i, fmt::format("reader stopped: no answer after {:.0f} s", std::max(seconds, 1.0)));
      }
    }
  }

  /// False when the worker is gone, or says what no worker would say.
  bool receive(Worker& worker) {
    std::uint8_t buffer[1 << 16];
    ssize_t got = ::recv(worker.socket, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    worker.received.insert(worker.received.end(), buffer, buffer + got);
    std::size_t used = 0;
    while (worker.received.size() - used >= sizeof(Header)) {
      Header header;
      std::memcpy(&header, worker.received.data() + used, sizeof header);
      if (header.size > longest_frame) return false;
      if (worker.received.size() - used - sizeof header < header.size) {
        worker.received.reserve(used + sizeof header + header.size);  // so that it is not moved as it grows
        break;
      }
      std::span content(worker.received.data() + used + sizeof header, header.size);
      used += sizeof header + header.size;
      try {
        bool understood = header.frame == Frame::records ? take(worker, decode(content))
                          : header.frame == Frame::answer
                              ? take(worker, content)
                              : understand(worker, header.frame, Json::from_cbor(content.begin(), content.end()));
        if (!understood) return false;
      } catch (const std::exception& error) {
        worker.failure = fmt::format("reader told nonsense: {}", error.what());
        return false;
      }
    }
    worker.received.erase(worker.received.begin(), worker.received.begin() + static_cast<std::ptrdiff_t>(used));
    return true;
  }

  bool take(Worker& worker, std::vector<FileRecord> files) {
    if (!worker.task) return false;
    std::move(files.begin(), files.end(), std::back_inserter(readings_[*worker.task].files));
    if (worker.item) ++worker.age;
    worker.item.reset();
    set_deadline(worker);
    return true;
  }

  bool take(Worker& worker, std::span<const std::uint8_t> answer) {
    if (!worker.task) return false;
    readings_[*worker.task].answer.assign(answer.begin(), answer.end());
    set_deadline(worker);
    return true;
  }

  bool understand(Worker& worker, Frame frame, const Json& content) {
    if (!worker.task) return false;
    Reading& reading = readings_[*worker.task];
    switch (frame) {
      case Frame::package:
        reading.packages[content.at(0).get<std::string>()] = unpacking_of(content.at(1).get<std::string>());
        break;
      case Frame::begin:
        worker.item = Item{content.at(0).get<std::string>(), content.at(1).get<std::uint64_t>()};
        ++worker.items;
        break;
      case Frame::link:
        reading.links[content.at(0).get<std::string>()] = content.at(1).get<std::string>();
        break;
      case Frame::loader_folders:
        reading.loader_folders[content.at(0).get<std::string>()] = content.at(1).get<std::vector<std::string>>();
        break;
      case Frame::alive:
        break;
      case Frame::memory:
        worker.ran_out_of_memory = true;
        break;
      case Frame::failed:
        worker.failure = content.at(0).get<std::string>();
        break;
      case Frame::end:
        worker.task.reset();
        worker.item.reset();
        return true;
      default:
        return false;
    }
    set_deadline(worker);
    return true;
  }

  /// The worker is dead, or dies now. Its item gets the problem; the rest of its task waits for another worker.
  void bury(std::size_t index, std::string why) {
    Worker worker = std::move(workers_[index]);
    workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(index));
    int status = end(worker);
    if (!worker.task) return;
    std::size_t task = *worker.task;

    if (worker.ran_out_of_memory && worker.age > 0 && worker.item) {
      // What earlier files left in the heap counts too. A fresh worker decides.
      waiting_.push_front({task, worker.items - 1});
      return;
    }
    if (worker.ran_out_of_memory)
      why = fmt::format("reader stopped: it needs more than {} MiB of memory", limits_.memory >> 20);
    if (!worker.failure.empty()) why = worker.failure;
    if (why.empty()) why = death(status);

    Reading& reading = readings_[task];
    auto blame = [&](const Item& item, std::string message) {
      FileRecord file;
      file.path = item.path;
      file.size = item.size;
      file.problems.push_back({std::nullopt, std::move(message)});
      reading.files.push_back(std::move(file));
    };
    Item whole{tasks_[task].path, 0};
    struct stat status_of_file {};
    if (stat(whole.path.c_str(), &status_of_file) == 0) whole.size = static_cast<std::uint64_t>(status_of_file.st_size);

    if (!worker.item) {  // not of a member: a fresh worker would die at the same place
      blame(whole, !reading.packages.empty() ? why + ", while unpacking; the members behind were not read" : why);
      return;
    }
    blame(*worker.item, why);
    if (reading.packages.empty()) return;
    if (++deaths_[task] < limits_.deaths)
      waiting_.push_front({task, worker.items});
    else
      blame(whole,
            fmt::format("reader died {} times; the members behind {} were not read", deaths_[task], worker.item->path));
  }

  /// Takes a worker out of the world; its wait status.
  static int end(Worker& worker) {
    int status = 0;
    if (worker.process <= 0) return status;
    kill(worker.process, SIGKILL);  // one that is dead already keeps its own status
    close(worker.socket);
    while (waitpid(worker.process, &status, 0) < 0 && errno == EINTR) {
    }
    worker.process = -1;
    return status;
  }

  std::span<const Task> tasks_;
  const Reader& reader_;
  const WorkerLimits& limits_;
  std::vector<Reading> readings_;
  std::vector<unsigned> deaths_;
  std::deque<Waiting> waiting_;
  std::vector<Worker> workers_;
};

}  // namespace

std::vector<Reading> read_in_workers(std::span<const Task> tasks, const Reader& reader, const WorkerLimits& limits) {
  return Pool(tasks, reader, limits).run();
}

}  // namespace cudeploy
