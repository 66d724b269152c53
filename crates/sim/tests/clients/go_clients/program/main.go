// Stock Go clients against an API server: one line for each thing that must work.
//
//	go-clients KUBECONFIG [PART...]
//
// Without parts all of them. They run side by side, each in a namespace of its own, and
// need the definitions of the fleet's kinds. The server may be any: what is checked is
// what Kubernetes promises its clients. Only `pods` expects that somebody runs them.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// How long anything may take. Far more than it does, for machines that are busy.
const patience = 60 * time.Second

// A part is a list of checks that build on each other.
type part struct {
	name   string
	checks func(*bench) []check
}

type check struct {
	says string
	run  func(context.Context) error
}

var parts = []part{
	{"typed", typedChecks},
	{"rights", rightsChecks},
	{"pods", podChecks},
	{"dynamic", dynamicChecks},
	{"answers", answerChecks},
	{"events", eventChecks},
	{"watching", watchingChecks},
	{"informers", informerChecks},
	{"managers", managerChecks},
	{"webhooks", webhookChecks},
}

// What every check needs.
type bench struct {
	config    *rest.Config
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	traffic   *traffic
	namespace string
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: go-clients KUBECONFIG [PART...]")
		os.Exit(2)
	}
	if os.Getenv("GO_CLIENTS_LOG") == "" {
		// What clients say beside is for their authors.
		klog.SetLogger(logr.Discard())
	}
	ctrl.SetLogger(klog.Background())
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !run(config, os.Args[2:], os.Stdout) {
		os.Exit(1)
	}
}

// Runs the parts side by side and prints them in order; whether all is well.
func run(config *rest.Config, wanted []string, out io.Writer) bool {
	said := make([]string, len(parts))
	well := make([]bool, len(parts))
	var all sync.WaitGroup
	for at, one := range parts {
		well[at] = true
		if len(wanted) > 0 && !slices.Contains(wanted, one.name) {
			continue
		}
		all.Add(1)
		go func() {
			defer all.Done()
			said[at], well[at] = one.run(config)
		}()
	}
	all.Wait()
	for _, lines := range said {
		fmt.Fprint(out, lines)
	}
	return !slices.Contains(well, false)
}

// Runs the checks in order, up to the first that fails: those after build on it.
func (p part) run(config *rest.Config) (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	b, err := newBench(ctx, config, "go-"+p.name)
	if err != nil {
		return fmt.Sprintf("FAILED %s: %v\n", p.name, err), false
	}
	var said string
	for _, check := range p.checks(b) {
		if err := check.run(ctx); err != nil {
			return said + fmt.Sprintf("FAILED %s: %s: %v\n", p.name, check.says, err), false
		}
		said += fmt.Sprintf("ok %s: %s\n", p.name, check.says)
	}
	return said, true
}

func newBench(ctx context.Context, config *rest.Config, namespace string) (*bench, error) {
	b := &bench{config: rest.CopyConfig(config), traffic: &traffic{}, namespace: namespace}
	b.config.QPS = -1
	b.config.UserAgent = namespace + "/1.0"
	b.config.Wrap(b.traffic.listen)
	var err error
	if b.kube, err = kubernetes.NewForConfig(b.config); err != nil {
		return nil, err
	}
	if b.dynamic, err = dynamic.NewForConfig(b.config); err != nil {
		return nil, err
	}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err = b.kube.CoreV1().Namespaces().Create(ctx, made, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return b, err
}

// Asks until it is so.
func eventually(ctx context.Context, what string, so func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, so)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// An error unless it is so.
func expect(so bool, format string, args ...any) error {
	if so {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// The first thing that is wrong.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
