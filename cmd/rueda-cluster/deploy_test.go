package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"
)

// manifests is the folder of the manifests of a cluster.
const manifests = "../../deploy/kubernetes/cluster"

// manifest has what the tests compare.
type manifest struct {
	Kind      string
	Metadata  struct{ Name string }
	Resources []string
	Generated []struct {
		Name  string
		Files []string
	} `yaml:"configMapGenerator"`
	Spec struct {
		ServiceName string `yaml:"serviceName"`
		ClusterIP   string `yaml:"clusterIP"`
		Replicas    int
		Ports       []struct {
			Name       string
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
				Volumes    []struct {
					Name      string
					ConfigMap struct{ Name string } `yaml:"configMap"`
				}
			}
		}
		Claims []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type container struct {
	Image   string
	Args    []string
	Command []string
	Env     []variable
	Ports   []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Mounts []mount `yaml:"volumeMounts"`
}

type variable struct{ Name string }

type mount struct {
	Name string
	Path string `yaml:"mountPath"`
}

// readManifests returns the objects of a file.
func readManifests(t *testing.T, name string) (list []manifest) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, name))
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var m manifest
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list = append(list, m)
	}
}

// sets returns the StatefulSets and services of the files that the kustomization names, by name,
// and the files of its config maps. It checks that each set has its service, and each mount its volume.
func sets(t *testing.T) (found, services map[string]*manifest, generated map[string][]string) {
	t.Helper()
	k := readManifests(t, "kustomization.yaml")[0]
	found, services, generated = map[string]*manifest{}, map[string]*manifest{}, map[string][]string{}
	for _, g := range k.Generated {
		generated[g.Name] = g.Files
	}
	for _, name := range k.Resources {
		for _, m := range readManifests(t, name) {
			switch m.Kind {
			case "StatefulSet":
				found[m.Metadata.Name] = &m
			case "Service":
				services[m.Metadata.Name] = &m
			}
		}
	}
	for name, m := range found {
		if services[m.Spec.ServiceName] == nil {
			t.Errorf("%s: no service %q", name, m.Spec.ServiceName)
		}
		has := map[string]bool{}
		for _, v := range m.Spec.Template.Spec.Volumes {
			has[v.Name] = true
			if c := v.ConfigMap.Name; c != "" && generated[c] == nil {
				t.Errorf("%s: no config map %q", name, c)
			}
		}
		for _, c := range m.Spec.Claims {
			has[c.Metadata.Name] = true
		}
		for _, c := range m.Spec.Template.Spec.Containers {
			for _, mount := range c.Mounts {
				if !has[mount.Name] {
					t.Errorf("%s: no volume %q", name, mount.Name)
				}
			}
		}
	}
	return found, services, generated
}

// TestManifestsE2E checks the manifests of a cluster with the programs themselves: each command
// line of a node checks its configuration, nats-server reads its file, and both name the servers
// that the manifests start.
func TestManifestsE2E(t *testing.T) {
	found, services, generated := sets(t)
	if names := slices.Sorted(maps.Keys(found)); fmt.Sprint(names) != "[rueda-edge rueda-nats rueda-sequencer]" {
		t.Fatalf("StatefulSets %q", names)
	}
	program, err := rueda()
	if err != nil {
		t.Fatal(err)
	}
	operators := filepath.Join(t.TempDir(), "operators")
	if err := os.WriteFile(operators, []byte(strings.Repeat("operator", 5)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets := makeCertificates(t)
	for role, replicas := range map[string]int{"sequencer": 2, "edge": 3} {
		m := found["rueda-"+role]
		c := m.Spec.Template.Spec.Containers[0]
		if m.Spec.Replicas != replicas || strings.Join(c.Args, " ") != "serve --config /etc/rueda/rueda.toml --role "+role {
			t.Errorf("%s: %d replicas of %q", m.Metadata.Name, m.Spec.Replicas, c.Args)
		}
		file := filepath.Join(t.TempDir(), "rueda.toml")
		text, err := os.ReadFile(filepath.Join(manifests, "rueda.toml"))
		if err == nil {
			changed := strings.NewReplacer("/var/lib/rueda/data", filepath.Join(t.TempDir(), "data"), "/etc/rueda-operators/operators", operators,
				"/etc/rueda-nats/ca.crt", filepath.Join(secrets, "ca.crt"), "/etc/rueda-nats/tls.", filepath.Join(secrets, "node.")).Replace(string(text))
			err = os.WriteFile(file, []byte(changed), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		args := slices.Clone(c.Args)
		args[slices.Index(args, "/etc/rueda/rueda.toml")] = file
		cmd := exec.Command(program, append(args, "--check")...)
		cmd.Env = append(os.Environ(), "RUEDA_DATABASE_URL=postgres://rueda@db.broker.example/rueda?sslmode=verify-full", "RUEDA_ENCRYPTION_KEY="+strings.Repeat("1f", 32))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("rueda %q: %v\n%s", args, err, out)
		}
		for _, env := range []string{"RUEDA_DATABASE_URL", "RUEDA_ENCRYPTION_KEY"} {
			if !slices.ContainsFunc(c.Env, func(e variable) bool { return e.Name == env }) {
				t.Errorf("%s does not set %s", m.Metadata.Name, env)
			}
		}
		for _, path := range []string{"/etc/rueda", "/etc/rueda-operators", "/var/lib/rueda"} {
			if !slices.ContainsFunc(c.Mounts, func(m mount) bool { return m.Path == path }) {
				t.Errorf("%s does not mount %s", m.Metadata.Name, path)
			}
		}
		if !strings.Contains(string(text), fmt.Sprintf("listen = \"0.0.0.0:%d\"\n", c.Ports[0].ContainerPort)) || generated["rueda-cluster"][0] != "rueda.toml" {
			t.Errorf("%s: port %d, config maps %v", m.Metadata.Name, c.Ports[0].ContainerPort, generated)
		}
	}
	checkNats(t, found["rueda-nats"], services["rueda-nats"], natsOptions(t, secrets))
}

// makeCertificates runs the script that makes the certificates of the manifests, and returns their
// folder.
func makeCertificates(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatal("openssl is missing")
		}
		t.Skip("openssl is missing")
	}
	folder := filepath.Join(t.TempDir(), "secrets")
	if out, err := exec.Command(filepath.Join(manifests, "certificates"), folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder
}

// natsOptions reads the configuration of the first NATS server, with certificates of a folder.
func natsOptions(t *testing.T, secrets string) *server.Options {
	t.Helper()
	t.Setenv("POD_NAME", "rueda-nats-0")
	text, err := os.ReadFile(filepath.Join(manifests, "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer("/etc/nats-tls/ca.crt", filepath.Join(secrets, "ca.crt"), "/etc/nats-tls/tls.", filepath.Join(secrets, "server.")).Replace(string(text))
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestManifestNatsE2E runs a NATS server with the configuration of the manifests, alone. A node gets
// in by its certificate, and may do what a node does. Nobody else gets in.
func TestManifestNatsE2E(t *testing.T) {
	secrets := makeCertificates(t)
	o := natsOptions(t, secrets)
	o.Host, o.Port, o.HTTPPort, o.StoreDir = "127.0.0.1", server.RANDOM_PORT, 0, t.TempDir()
	o.Cluster, o.Routes = server.ClusterOpts{}, nil
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	url := fmt.Sprintf("tls://127.0.0.1:%d", s.Addr().(*net.TCPAddr).Port)
	authority := nats.RootCAs(filepath.Join(secrets, "ca.crt"))
	name := func(o *nats.Options) error { // of the pod
		o.TLSConfig.ServerName = "rueda-nats-1.rueda-nats"
		return nil
	}
	with := func(name string) nats.Option {
		return nats.ClientCert(filepath.Join(secrets, name+".crt"), filepath.Join(secrets, name+".key"))
	}
	stranger := makeCertificates(t)
	for who, own := range map[string]nats.Option{
		"nobody": func(*nats.Options) error { return nil }, "a server": with("server"),
		"another authority": nats.ClientCert(filepath.Join(stranger, "node.crt"), filepath.Join(stranger, "node.key")),
	} {
		if c, err := nats.Connect(url, authority, own, name, nats.MaxReconnects(0)); err == nil {
			t.Errorf("%s gets in", who)
			c.Close()
		}
	}
	refused := make(chan error, 1)
	c, err := nats.Connect(url, authority, with("node"), name, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Request("$JS.API.INFO", nil, time.Minute); err != nil {
		t.Errorf("a node: %v", err)
	}
	if err := errors.Join(c.Publish("elsewhere", nil), c.Flush()); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("a node outside of its subjects: %v", err)
	}
}

// checkNats compares the NATS servers of the manifests with their configuration and that of nodes.
func checkNats(t *testing.T, m, service *manifest, o *server.Options) {
	t.Helper()
	toml, err := os.ReadFile(filepath.Join(manifests, "rueda.toml"))
	if err != nil {
		t.Fatal(err)
	}
	c := m.Spec.Template.Spec.Containers[0]
	ports := map[string]int{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	if ports["client"] != o.Port || ports["cluster"] != o.Cluster.Port || ports["monitor"] != o.HTTPPort || !o.JetStream || o.ServerName != "rueda-nats-0" {
		t.Errorf("ports %v, and the file has %d, %d, %d", ports, o.Port, o.Cluster.Port, o.HTTPPort)
	}
	if o.LameDuckDuration.Seconds()+o.LameDuckGracePeriod.Seconds() > float64(m.Spec.Template.Spec.Grace) {
		t.Errorf("the lame duck mode takes longer than the %d s of the pod", m.Spec.Template.Spec.Grace)
	}
	if service.Spec.ClusterIP != "None" || c.Image != "nats:"+server.VERSION+"-alpine" || c.Args[1] != "/etc/nats/nats.conf" {
		t.Errorf("%s: image %s, %q", m.Metadata.Name, c.Image, c.Args)
	}
	if len(o.Routes) != m.Spec.Replicas {
		t.Fatalf("%d routes for %d servers", len(o.Routes), m.Spec.Replicas)
	}
	for i, u := range o.Routes {
		host := fmt.Sprintf("%s-%d.%s", m.Metadata.Name, i, m.Spec.ServiceName)
		if u.Host != fmt.Sprintf("%s:%d", host, o.Cluster.Port) {
			t.Errorf("route %s, and the server is %s", u, host)
		}
		if want := fmt.Sprintf("\"tls://%s:%d\"", host, o.Port); !strings.Contains(string(toml), want) {
			t.Errorf("rueda.toml does not have %s", want)
		}
	}
	if i := slices.IndexFunc(c.Mounts, func(x mount) bool { return x.Path == o.StoreDir }); i < 0 || c.Mounts[i].Name != m.Spec.Claims[0].Metadata.Name {
		t.Errorf("the folder %s is not on a volume", o.StoreDir)
	}
}

// TestPermissionsE2E runs nodes with the permissions that docs/cluster.md states. No permission may
// be missing, and without one of them the nodes do not run.
func TestPermissionsE2E(t *testing.T) {
	text, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	subjects := func(kind string) (list []string) {
		m := regexp.MustCompile(`(?m)^ +` + kind + `: (\[".*"\])$`).FindSubmatch(text)
		if m == nil || json.Unmarshal(m[1], &list) != nil {
			t.Fatalf("docs/cluster.md has no permissions to %s", kind)
		}
		for i := range list {
			list[i] = strings.NewReplacer("rueda.rueda.", "rueda."+benchCluster+".", "rueda-rueda-", "rueda-"+benchCluster+"-").Replace(list[i])
		}
		return list
	}
	publish, subscribe := subjects("publish"), subjects("subscribe")
	runs := func(publish, subscribe []string) error {
		s, err := startServers(serversConfig{nodes: 1, folder: t.TempDir(), permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.stop()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c := nodesConfig{bareConfig: bareConfig{url: s.url(), replicas: 1, rows: 200_000, rate: 1000, time: time.Second}, folder: t.TempDir()}
		_, err = runNodes(ctx, c)
		return err
	}
	if err := runs(publish, subscribe); err != nil {
		t.Errorf("with all: %v", err)
	}
}
