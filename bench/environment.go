package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// Environment is what a number depends on besides what was measured.
type Environment struct {
	CPU        string            `json:"cpu"`
	CPUs       int               `json:"cpus"`
	System     string            `json:"system"` // "linux/amd64"
	Kernel     string            `json:"kernel"`
	Virtual    bool              `json:"virtual"` // a hypervisor is there
	Governor   string            `json:"governor"`
	Memory     uint64            `json:"memory"` // bytes
	Go         string            `json:"go"`
	GOGC       string            `json:"gogc"` // of this process; what is measured has the default
	GOMEMLIMIT string            `json:"gomemlimit"`
	GOMAXPROCS int               `json:"gomaxprocs"`
	GODEBUG    string            `json:"godebug,omitempty"`
	Commit     string            `json:"commit"`
	Load       float64           `json:"load"` // load average of the last minute, before the run
	Sysctl     map[string]string `json:"sysctl,omitempty"`
	Interfaces []Interface       `json:"interfaces,omitempty"`
}

// Interface is a network interface as the measured traffic met it.
type Interface struct {
	Name     string          `json:"name"`
	MTU      int             `json:"mtu"`
	Driver   string          `json:"driver,omitempty"`
	RxQueues int             `json:"rx_queues"`
	TxQueues int             `json:"tx_queues"`
	Qdisc    string          `json:"qdisc,omitempty"`
	Offloads map[string]bool `json:"offloads,omitempty"`
}

// ReadEnvironment looks at the machine and at this process.
func ReadEnvironment() Environment {
	load, _ := loadAverage()
	e := Environment{
		CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		GOGC: setting("GOGC", "100 (default)"), GOMEMLIMIT: setting("GOMEMLIMIT", "none (default)"),
		GODEBUG: os.Getenv("GODEBUG"), Commit: commit(), Load: load, Governor: "unknown",
	}
	readSystem(&e)
	return e
}

func setting(name, unset string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return unset
}

// commit is the revision that was built, marked where the tree was changed.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := info.Main.Version, ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = " (changed)"
		}
	}
	if revision == "(devel)" || revision == "" {
		return treeCommit()
	}
	return revision + dirty
}

// treeCommit is that of the tree that the binary lies in, where it was built without a
// note of its own (-buildvcs=false).
func treeCommit() string {
	exe, err := os.Executable()
	if err != nil {
		return "unknown"
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", filepath.Dir(exe)}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	revision, err := git("rev-parse", "HEAD")
	if err != nil {
		return "unknown: the binary was built without it"
	}
	if changed, err := git("status", "--porcelain", "--untracked-files=no"); err != nil || changed != "" {
		revision += " (changed)"
	}
	return revision + ", of the tree that the binary lies in"
}
