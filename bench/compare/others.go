package compare

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/internal/peers/folder"
)

// The others' configurations, each as its own documentation has it for a
// reverse proxy that keeps connections to its upstream.
var (
	//go:embed nginx.conf.tmpl
	nginxConfig string
	//go:embed haproxy.cfg.tmpl
	haproxyConfig string
	//go:embed Caddyfile.tmpl
	caddyConfig string
)

// other is a gateway of somebody else's.
type other struct {
	name, config, file string
	// command runs it in the foreground; {} stands for the configuration's path.
	command []string
	version []string // command that tells which it is; none for Caddy
	trixie  bool     // lives in Debian's folder, entered by chroot
}

var others = []other{
	{name: "nginx", config: nginxConfig, file: "nginx.conf", trixie: true, command: []string{"/usr/sbin/nginx", "-c", "{}"}, version: []string{"/usr/sbin/nginx", "-v"}},
	{name: "HAProxy", config: haproxyConfig, file: "haproxy.cfg", trixie: true, command: []string{"/usr/sbin/haproxy", "-db", "-f", "{}"}, version: []string{"/usr/sbin/haproxy", "-v"}},
	{name: "Caddy", config: caddyConfig, file: "Caddyfile", command: []string{"caddy-*", "run", "--adapter", "caddyfile", "--config", "{}"}},
}

// values fill a configuration in.
type values struct {
	Dir, Host, Upstream, Groups string
	Clear, TLS                  int // ports
}

// opensslGroups in OpenSSL's order of preference; the load offers the first
// alone.
var opensslGroups = strings.Join([]string{handshake.GroupName(load.Group), "SecP256r1MLKEM768", "SecP384r1MLKEM1024", "X25519"}, ":")

var errNotInstalled = errors.New("not installed (scripts/peers.sh --bench installs it)")

func (l *lab) startOther(ctx context.Context, o other, x *subject) error {
	root, program, err := o.find()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Join(root, "tmp"), "pqgw-bench-")
	if err != nil {
		return err
	}
	l.dirs = append(l.dirs, dir)
	v := values{Dir: "/" + strings.TrimPrefix(strings.TrimPrefix(dir, root), "/"), Host: l.Host(), Upstream: l.Upstream(l.origin), Groups: opensslGroups}
	if err := l.Do(link.Gateway, func() error { v.Clear, v.TLS, err = freePorts(v.Host); return err }); err != nil {
		return err
	}
	if err := o.write(dir, v, l); err != nil {
		return err
	}
	x.version = o.tellVersion(ctx, root, program)
	cmd := exec.Command(program, fill(o.command[1:], v.Dir+"/"+o.file)...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "HOME="+v.Dir, "XDG_DATA_HOME="+v.Dir, "XDG_CONFIG_HOME="+v.Dir)
	if root != "/" {
		enter(cmd, root)
	}
	err = l.Do(link.Gateway, func() error {
		x.process, err = l.session.Start(cmd, l.CPU(link.Gateway))
		return err
	})
	if err != nil {
		return err
	}
	x.clear = l.Reach(link.Gateway, net.JoinHostPort(v.Host, strconv.Itoa(v.Clear)))[0]
	x.secure = l.Reach(link.Gateway, net.JoinHostPort(v.Host, strconv.Itoa(v.TLS)))[0]
	return l.await(ctx, x)
}

// find gives the root that the program runs in, and its path there.
func (o other) find() (root, program string, err error) {
	if !o.trixie {
		found, _ := filepath.Glob(filepath.Join(folder.Dir(), "bench", o.command[0]))
		if len(found) == 0 {
			return "", "", errNotInstalled
		}
		return "/", found[len(found)-1], nil
	}
	root = filepath.Join(folder.Dir(), "trixie")
	if _, err := os.Stat(filepath.Join(root, o.command[0])); err != nil {
		return "", "", errNotInstalled
	}
	if os.Geteuid() != 0 {
		return "", "", errors.New("needs root: its folder is entered by chroot")
	}
	return root, o.command[0], nil
}

// write puts configuration and certificate into a folder.
func (o other) write(dir string, v values, l *lab) error {
	t, err := template.New(o.file).Parse(o.config)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, o.file))
	if err != nil {
		return err
	}
	if err := errors.Join(t.Execute(f, v), f.Close(), os.Chmod(dir, 0o755)); err != nil {
		return err
	}
	if _, _, err := l.Identity.Write(dir); err != nil {
		return err
	}
	both := append(append([]byte(nil), l.Identity.Certificate...), l.Identity.Key...)
	return os.WriteFile(filepath.Join(dir, "both.pem"), both, 0o600)
}

func fill(args []string, path string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.ReplaceAll(a, "{}", path)
	}
	return out
}

// tellVersion is the first line of what the program says of itself. Caddy does
// not know when it was built from its module; its file is named by it.
func (o other) tellVersion(ctx context.Context, root, program string) string {
	if !o.trixie {
		return filepath.Base(program)
	}
	cmd := exec.CommandContext(ctx, program, o.version[1:]...)
	cmd.Dir = "/"
	enter(cmd, root)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// freePorts finds two ports that nobody has, the second free for UDP too.
func freePorts(host string) (clear, secure int, err error) {
	for range 10 {
		a, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return 0, 0, err
		}
		b, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return 0, 0, errors.Join(err, a.Close())
		}
		c, err := net.ListenPacket("udp", b.Addr().String())
		clear, secure = a.Addr().(*net.TCPAddr).Port, b.Addr().(*net.TCPAddr).Port
		_, _ = a.Close(), b.Close()
		if err == nil {
			return clear, secure, c.Close()
		}
	}
	return 0, 0, errors.New("no port is free for both TCP and UDP")
}

// startPatience is how long a gateway may take until it listens.
const startPatience = 10 * time.Second

// await waits until a gateway listens.
func (l *lab) await(ctx context.Context, x *subject) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for _, address := range []string{x.clear, x.secure} {
		for {
			err := l.Do(link.Load, func() error {
				var d net.Dialer
				c, err := d.DialContext(ctx, "tcp", address)
				if err == nil {
					err = c.Close()
				}
				return err
			})
			if err == nil {
				break
			}
			select {
			case <-x.process.Ended():
				return fmt.Errorf("%s has ended: %s", x.name, x.process.Stderr())
			case <-ctx.Done():
				return fmt.Errorf("%s does not listen on %s: %w: %s", x.name, address, err, x.process.Stderr())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}
