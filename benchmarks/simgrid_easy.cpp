// EASY backfilling on SimGrid: an actor submits, one actor per running job sleeps for its run time, one schedules.
// Reads the number of cores, and per job submission time, cores, requested time and run time. Prints the processor
// seconds of the simulation, and the start time of each job in the order of the input.
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <list>
#include <set>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Job {
  double submission, requested, run;
  long cores;
  double start = -1;
};

static std::vector<Job> jobs;
static std::list<Job*> queue;                      // in order of arrival
static std::multiset<std::pair<double, Job*>> running; // by expected end
static long free_cores;
static size_t left;
static bool is_due; // whether something happened since the last decision
static sg4::MutexPtr mutex;
static sg4::ConditionVariablePtr changed;

static void start(Job* job)
{
  job->start = sg4::Engine::get_clock();
  free_cores -= job->cores;
  auto place = running.emplace(job->start + job->requested, job);
  sg4::Actor::create("job", sg4::this_actor::get_host(), [job, place] {
    sg4::this_actor::sleep_for(job->run);
    free_cores += job->cores;
    running.erase(place);
    left--;
    is_due = true;
    changed->notify_one();
  });
}

static void schedule()
{
  while (not queue.empty() && queue.front()->cores <= free_cores) {
    start(queue.front());
    queue.pop_front();
  }
  if (queue.empty() || free_cores == 0)
    return;
  double shadow = -1, now = sg4::Engine::get_clock();
  long then = free_cores;
  for (auto const& [end, job] : running) {
    if (shadow >= 0 && end > shadow)
      break;
    then += job->cores;
    if (then >= queue.front()->cores)
      shadow = end;
  }
  long spare = then - queue.front()->cores;
  for (auto each = std::next(queue.begin()); each != queue.end() && free_cores > 0;) {
    Job* job = *each;
    bool late = now + job->requested > shadow;
    if (job->cores > free_cores || (late && job->cores > spare)) {
      ++each;
      continue;
    }
    if (late)
      spare -= job->cores;
    start(job);
    each = queue.erase(each);
  }
}

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  if (scanf("%ld", &free_cores) != 1)
    return 1;
  for (Job job; scanf("%lf %ld %lf %lf", &job.submission, &job.cores, &job.requested, &job.run) == 4;)
    jobs.push_back(job);
  left = jobs.size();
  auto* zone = sg4::create_full_zone("zone");
  auto* host = zone->create_host("host", 1e9)->seal();
  zone->seal();
  mutex   = sg4::Mutex::create();
  changed = sg4::ConditionVariable::create();
  sg4::Actor::create("submitter", host, [] {
    for (auto& job : jobs) {
      if (job.submission > sg4::Engine::get_clock())
        sg4::this_actor::sleep_until(job.submission);
      queue.push_back(&job);
      is_due = true;
      changed->notify_one();
    }
  });
  sg4::Actor::create("scheduler", host, [] {
    std::unique_lock<sg4::Mutex> lock(*mutex);
    while (left > 0) {
      while (not is_due)
        changed->wait(lock);
      sg4::this_actor::yield(); // whatever else happens at this instant comes first
      is_due = false;
      schedule();
    }
  });
  clock_t begin = clock();
  engine.run();
  printf("%.6f\n", double(clock() - begin) / CLOCKS_PER_SEC);
  for (auto const& job : jobs)
    printf("%.17g\n", job.start);
  return 0;
}
