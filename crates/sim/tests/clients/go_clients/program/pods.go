package main

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/utils/ptr"
)

type pods struct{ *bench }

// What clients do with pods. Those of the embedded server are simulated, and say so.
func podChecks(b *bench) []check {
	p := pods{b}
	return []check{
		{"a pod becomes ready", p.ready},
		{"its log is one honest line", p.log},
		{"nobody gets into it, and is told why", p.exec},
		{"it is evicted unless a budget forbids it", p.evict},
	}
}

func (p pods) ready(ctx context.Context) error {
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "solo", Labels: map[string]string{"app": "solo"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers:                    []corev1.Container{{Name: "main", Image: "solo:1"}},
		},
	}
	all := p.kube.CoreV1().Pods(p.namespace)
	if _, err := all.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "the pod runs", func(ctx context.Context) (bool, error) {
		found, err := all.Get(ctx, "solo", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return found.Status.Phase == corev1.PodRunning && found.Spec.NodeName != "", nil
	})
}

func (p pods) log(ctx context.Context) error {
	text, err := p.kube.CoreV1().Pods(p.namespace).GetLogs("solo", &corev1.PodLogOptions{}).DoRaw(ctx)
	said := string(text)
	return first(err, expect(strings.HasPrefix(said, "flagship: containers are simulated here"), "got %q", said))
}

func (p pods) exec(ctx context.Context) error {
	request := p.kube.CoreV1().RESTClient().Post().Resource("pods").Name("solo").
		Namespace(p.namespace).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"ls"}, Stdout: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(p.config, "POST", request.URL())
	if err != nil {
		return err
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &strings.Builder{}})
	said := "containers are simulated here: exec is not possible"
	return expect(err != nil && strings.Contains(err.Error(), said), "got %v", err)
}

func (p pods) evict(ctx context.Context) error {
	none := intstr.FromInt32(0)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "solo"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &none,
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "solo"}},
		},
	}
	budgets := p.kube.PolicyV1().PodDisruptionBudgets(p.namespace)
	if _, err := budgets.Create(ctx, budget, metav1.CreateOptions{}); err != nil {
		return err
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "solo", Namespace: p.namespace}}
	refused := p.kube.PolicyV1().Evictions(p.namespace).Evict(ctx, eviction)
	if !apierrors.IsTooManyRequests(refused) {
		return expect(false, "against its budget: %v", refused)
	}
	if err := budgets.Delete(ctx, "solo", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := p.kube.PolicyV1().Evictions(p.namespace).Evict(ctx, eviction); err != nil {
		return err
	}
	return eventually(ctx, "the pod goes", func(ctx context.Context) (bool, error) {
		_, err := p.kube.CoreV1().Pods(p.namespace).Get(ctx, "solo", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
