package link

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Prefix begins the name of each namespace of a lab.
const Prefix = "pqgw-"

// Hosts of a lab.
const (
	Load    = "load"
	Gateway = "gateway"
	Origin  = "origin" // the same host as Gateway in a lab of two
)

// Spec is what a lab is to be.
type Spec struct {
	Name  string        `json:"name"`  // of the lab; small letters and digits
	Hosts int           `json:"hosts"` // 2 or 3
	Links int           `json:"links"` // between load and gateway, 1 or 2
	Rate  Rate          `json:"rate"`  // of each link, each way; 0 does not shape
	RTT   time.Duration `json:"rtt"`   // added to each link between load and gateway; 0 is veth's own
	MTU   int           `json:"mtu"`   // of IP packets, 576 to 9000
	// Shaper is "tbf" or "htb".
	Shaper string `json:"shaper"`
	// Congestion is the congestion control of all hosts.
	Congestion string `json:"congestion"`
}

// Default is the lab of 2.5 Gbit/s Ethernet.
var Default = Spec{Name: "lab", Hosts: 3, Links: 1, Rate: 2_500_000_000, MTU: 1500, Shaper: "tbf", Congestion: "cubic"}

// maxRTT is what the queue of a wire is made for.
const maxRTT = time.Second

var names = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// Check refuses a lab that cannot be.
func (s Spec) Check() error {
	switch {
	case !names.MatchString(s.Name):
		return fmt.Errorf("the lab's name is %q; wanted 1 to 16 small letters and digits", s.Name)
	case s.Hosts != 2 && s.Hosts != 3:
		return fmt.Errorf("%d hosts; there can be 2 or 3", s.Hosts)
	case s.Links != 1 && s.Links != 2:
		return fmt.Errorf("%d links; there can be 1 or 2", s.Links)
	case s.RTT < 0 || s.RTT > maxRTT:
		return fmt.Errorf("a round trip time of %v; it can be 0 to %v", s.RTT, maxRTT)
	case s.MTU < 576 || s.MTU > 9000:
		return fmt.Errorf("an MTU of %d; it can be 576 to 9000", s.MTU)
	case s.Shaper != "tbf" && s.Shaper != "htb":
		return fmt.Errorf("the shaper is %q; there are tbf and htb", s.Shaper)
	case !congestionNames.MatchString(s.Congestion):
		return fmt.Errorf("the congestion control is %q; the kernel's are in /proc/sys/net/ipv4/tcp_available_congestion_control", s.Congestion)
	}
	return nil
}

var congestionNames = regexp.MustCompile(`^[a-z0-9_]{1,15}$`)

// Rate is bits per second.
type Rate int64

var rateUnits = []struct {
	suffix string
	bits   float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// ErrRate is why a rate cannot be read.
var ErrRate = errors.New("not a rate: wanted for example 2.5gbit or 100mbit, or 0 for no limit")

// ParseRate reads a rate as tc(8) writes it: 2.5gbit.
func ParseRate(text string) (Rate, error) {
	if text == "0" {
		return 0, nil
	}
	for _, u := range rateUnits {
		number, ok := strings.CutSuffix(strings.ToLower(text), u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || !(v*u.bits >= 1e5 && v*u.bits <= 4e11) { // written so that NaN is refused
			break
		}
		return Rate(v * u.bits), nil
	}
	return 0, fmt.Errorf("%q is %w", text, ErrRate)
}

// String writes it as tc(8) does.
func (r Rate) String() string {
	if r == 0 {
		return "unlimited"
	}
	for _, u := range rateUnits {
		if float64(r) >= u.bits {
			return strconv.FormatFloat(float64(r)/u.bits, 'g', -1, 64) + u.suffix
		}
	}
	return "0"
}

// Set implements pflag.Value.
func (r *Rate) Set(text string) (err error) {
	*r, err = ParseRate(text)
	return err
}

// Type implements pflag.Value.
func (r *Rate) Type() string { return "rate" }
