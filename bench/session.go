package bench

import (
	"fmt"
	"os/exec"
	"sync"
	"time"
)

// Options are what a user asks of a run.
type Options struct {
	Quick  bool
	Rounds int // of each experiment; 0 means 5 when quick, else 15
	Ops    int // most operations of an arm in a round; 0 means as many as its time allows
	// Within bounds the whole run; 0 lets every bench take its own time. What one has
	// taken too long the others go without.
	Within time.Duration
	// Interfaces are a lab's, beside this machine's own.
	Interfaces []Interface
	// Partly is told what there is after each bench but the last, so that a run
	// that is cut short leaves it; nil for nobody.
	Partly func(*Results) error
	// Progress tells what is going on; nil keeps silent.
	Progress *Progress
}

// rounds of an experiment that does not say itself.
const (
	quickRounds = 5
	fullRounds  = 15
)

// Session is one bench at work: its experiments, its processes, its notes.
// Close ends the processes.
type Session struct {
	Options
	// Link is the name of the link lab to run across, "" for the loopback.
	Link   string
	data   *BenchData
	budget time.Duration
	ends   time.Time // of the budget
	load   float64

	mu        sync.Mutex
	processes map[*Process]struct{}
}

// Spawn starts this binary again in a role; see [RegisterRole]. It may use
// all CPUs.
func (s *Session) Spawn(role string, settings any) (*Child, error) {
	return s.SpawnOn(-1, role, settings)
}

// SpawnOn is Spawn on one CPU alone. env are more environment variables.
func (s *Session) SpawnOn(cpu int, role string, settings any, env ...string) (*Child, error) {
	c, err := startChild(role, settings, cpu, env)
	if err != nil {
		return nil, err
	}
	s.watch(c.Process)
	return c, nil
}

// Start runs another program, on one CPU alone if cpu is not negative. Its
// CPU counts as ours when the machine's quietness is judged.
func (s *Session) Start(cmd *exec.Cmd, cpu int) (*Process, error) {
	p, err := StartProcess(cmd, cpu)
	if err != nil {
		return nil, err
	}
	s.watch(p)
	return p, nil
}

func (s *Session) watch(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes[p] = struct{}{}
}

// Note adds a line that readers of the results should know.
func (s *Session) Note(format string, args ...any) {
	s.data.Notes = append(s.data.Notes, fmt.Sprintf(format, args...))
}

// Table adds a derived view.
func (s *Session) Table(t Table) { s.data.Tables = append(s.data.Tables, t) }

// Data is what the bench has found so far.
func (s *Session) Data() *BenchData { return s.data }

// Budget is the time that the bench may take in all.
func (s *Session) Budget() time.Duration { return s.budget }

func (s *Session) close() {
	s.mu.Lock()
	all := s.processes
	s.processes = nil
	s.mu.Unlock()
	for p := range all {
		p.Stop()
	}
}

// machine reads the kernel's account, with that of our own processes.
func (s *Session) machine() machine {
	m := readMachine()
	m.ours = ownCPU()
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.processes {
		select {
		case <-p.Ended(): // now among our ended children
			delete(s.processes, p)
			continue
		default:
		}
		if t, err := p.CPU(); err == nil {
			m.ours += t
		}
	}
	return m
}
