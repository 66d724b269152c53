package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const lease = "go-managers-lead"

type managed struct {
	*bench
	first, second *running
	// Without a cache.
	client client.Client
}

// A manager under way.
type running struct {
	manager.Manager
	stop  context.CancelFunc
	ended chan error
}

// Two managers of controller-runtime that share a lease.
func managerChecks(b *bench) []check {
	m := &managed{bench: b}
	return []check{
		{"the first manager is elected, and its caches are in sync", m.elected},
		{"a built-in kind is reconciled: finalizer, owned secret, event", m.builtin},
		{"what is owned comes back when somebody deletes it", m.restored},
		{"a typed kind of the fleet is reconciled: status written, label applied", m.custom},
		{"an untyped kind of the fleet is reconciled: status patched", m.untyped},
		{"an index of the cache selects, and metadata alone is kept", m.indexed},
		{"the first manager ends and gives its lease back", m.released},
		{"the second takes over and goes on", m.followed},
		{"a finalizer holds until its reconciler lets go, then what is owned goes, too", m.finalized},
		{"a leader that dies without a word is followed when its lease runs out", m.expired},
	}
}

func (m *managed) scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	addMemberClusters(scheme)
	return scheme
}

func (m *managed) start(ctx context.Context, name string) (*running, error) {
	leaseTime, deadline, retry := 15*time.Second, 10*time.Second, 200*time.Millisecond
	made, err := ctrl.NewManager(m.config, ctrl.Options{
		Scheme:                        m.scheme(),
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		LeaderElection:                true,
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       m.namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &leaseTime,
		RenewDeadline:                 &deadline,
		RetryPeriod:                   &retry,
		// Two managers in one process have controllers of one name.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{m.namespace: {}}},
			&corev1.Secret{}:    {Namespaces: map[string]cache.Config{m.namespace: {}}},
		}},
	})
	if err != nil {
		return nil, err
	}
	recorder := made.GetEventRecorderFor("keeper")
	err = first(
		ctrl.NewControllerManagedBy(made).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
			Complete(&keeper{made.GetClient(), recorder, name}),
		ctrl.NewControllerManagedBy(made).For(&MemberCluster{}).Complete(&joiner{made.GetClient()}),
		ctrl.NewControllerManagedBy(made).For(newPlacement()).Complete(&scheduler{made.GetClient()}),
		made.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "color", func(object client.Object) []string {
			return []string{object.(*corev1.ConfigMap).Data["color"]}
		}),
	)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	run := &running{made, stop, make(chan error, 1)}
	go func() { run.ended <- made.Start(ctx) }()
	return run, nil
}

func (r *running) lead(ctx context.Context) error {
	select {
	case <-r.Elected():
	case err := <-r.ended:
		return fmt.Errorf("the manager ended: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("never elected: %w", ctx.Err())
	}
	return expect(r.GetCache().WaitForCacheSync(ctx), "its caches are not in sync")
}

func (m *managed) elected(ctx context.Context) error {
	var err error
	if m.client, err = client.New(m.config, client.Options{Scheme: m.scheme()}); err != nil {
		return err
	}
	if m.first, err = m.start(ctx, "first"); err != nil {
		return err
	}
	if err := m.first.lead(ctx); err != nil {
		return err
	}
	if m.second, err = m.start(ctx, "second"); err != nil {
		return err
	}
	found, err := m.kube.CoordinationV1().Leases(m.namespace).Get(ctx, lease, metav1.GetOptions{})
	return first(
		err,
		expect(err != nil || ptr.Deref(found.Spec.HolderIdentity, "") != "", "nobody holds it"),
		expect(err != nil || ptr.Deref(found.Spec.LeaseDurationSeconds, 0) == 15, "for how long?"),
		expect(err != nil || !found.Spec.RenewTime.IsZero(), "since when?"),
	)
}

func (m *managed) keep(ctx context.Context, name, color string) error {
	return m.client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: m.namespace, Labels: map[string]string{"kept": "true"}},
		Data:       map[string]string{"color": color},
	})
}

func (m *managed) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: m.namespace, Name: name}
}

// Waits for the secret beside a config map, and who made it.
func (m *managed) kept(ctx context.Context, name, by string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := eventually(ctx, "the secret "+name, func(ctx context.Context) (bool, error) {
		err := m.client.Get(ctx, m.key(name), secret)
		return err == nil && secret.DeletionTimestamp.IsZero(), client.IgnoreNotFound(err)
	})
	return secret, first(err, expect(err != nil || secret.Annotations["kept-by"] == by, "by %v", secret.Annotations))
}

func (m *managed) told(ctx context.Context, reason string) error {
	return eventually(ctx, "the event "+reason, func(ctx context.Context) (bool, error) {
		options := metav1.ListOptions{FieldSelector: "reason=" + reason + ",involvedObject.kind=ConfigMap"}
		found, err := m.kube.CoreV1().Events(m.namespace).List(ctx, options)
		return err == nil && len(found.Items) > 0, err
	})
}

func (m *managed) builtin(ctx context.Context) error {
	if err := m.keep(ctx, "one", "red"); err != nil {
		return err
	}
	secret, err := m.kept(ctx, "one", "first")
	if err != nil {
		return err
	}
	var owner corev1.ConfigMap
	return first(
		m.client.Get(ctx, m.key("one"), &owner),
		expect(string(secret.Data["color"]) == "red", "got %v", secret.Data),
		expect(metav1.IsControlledBy(secret, &owner), "owned by %v", secret.OwnerReferences),
		expect(len(owner.Finalizers) == 1 && owner.Finalizers[0] == finalizer, "finalizers %v", owner.Finalizers),
		m.told(ctx, "Kept"),
	)
}

func (m *managed) restored(ctx context.Context) error {
	secret, err := m.kept(ctx, "one", "first")
	if err != nil {
		return err
	}
	if err := m.client.Delete(ctx, secret); err != nil {
		return err
	}
	return eventually(ctx, "another secret", func(ctx context.Context) (bool, error) {
		var other corev1.Secret
		err := m.client.Get(ctx, m.key("one"), &other)
		return err == nil && other.UID != secret.UID, client.IgnoreNotFound(err)
	})
}

func (m *managed) custom(ctx context.Context) error {
	made := &MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "go-managed"}}
	made.Spec.Identity = Identity{Kind: "ServiceAccount", Name: "agent", Namespace: "fleet-system"}
	if err := m.client.Create(ctx, made); err != nil {
		return err
	}
	err := eventually(ctx, "it has joined", func(ctx context.Context) (bool, error) {
		err := m.client.Get(ctx, client.ObjectKeyFromObject(made), made)
		return meta.IsStatusConditionTrue(made.Status.Conditions, "Joined") && made.Labels["joined"] == "yes", err
	})
	if err != nil {
		return err
	}
	var cached MemberClusterList
	options := client.MatchingLabels{"joined": "yes"}
	err = eventually(ctx, "it is in the cache", func(ctx context.Context) (bool, error) {
		err := m.first.GetClient().List(ctx, &cached, options)
		return len(cached.Items) == 1, err
	})
	return first(
		err,
		expect(made.Spec.HeartbeatPeriodSeconds == 60, "no default: %d", made.Spec.HeartbeatPeriodSeconds),
		expect(made.Generation == 1, "generation %d", made.Generation),
		m.client.Delete(ctx, made),
	)
}

func (m *managed) untyped(ctx context.Context) error {
	made := placement("go-managed")
	if err := m.client.Create(ctx, made); err != nil {
		return err
	}
	err := eventually(ctx, "it is scheduled", func(ctx context.Context) (bool, error) {
		err := m.client.Get(ctx, client.ObjectKeyFromObject(made), made)
		conditions, _, _ := unstructured.NestedSlice(made.Object, "status", "conditions")
		return len(conditions) == 1, err
	})
	return first(err, m.client.Delete(ctx, made))
}

func (m *managed) indexed(ctx context.Context) error {
	if err := m.keep(ctx, "two", "blue"); err != nil {
		return err
	}
	cached := m.first.GetClient()
	err := eventually(ctx, "the index knows it", func(ctx context.Context) (bool, error) {
		var blue corev1.ConfigMapList
		err := cached.List(ctx, &blue, client.MatchingFields{"color": "blue"})
		return len(blue.Items) == 1, err
	})
	if err != nil {
		return err
	}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return first(
		cached.Get(ctx, client.ObjectKey{Name: m.namespace}, partial),
		expect(partial.UID != "" && partial.Kind == "Namespace", "got %v", partial),
	)
}

func (m *managed) released(ctx context.Context) error {
	select {
	case <-m.second.Elected():
		return errors.New("the second leads beside the first")
	default:
	}
	m.first.stop()
	select {
	case err := <-m.first.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *managed) followed(ctx context.Context) error {
	if err := m.second.lead(ctx); err != nil {
		return err
	}
	if err := m.keep(ctx, "three", "green"); err != nil {
		return err
	}
	if _, err := m.kept(ctx, "three", "second"); err != nil {
		return err
	}
	found, err := m.kube.CoordinationV1().Leases(m.namespace).Get(ctx, lease, metav1.GetOptions{})
	return first(err, expect(err != nil || ptr.Deref(found.Spec.LeaseTransitions, 0) > 0, "no transition is counted"))
}

func (m *managed) finalized(ctx context.Context) error {
	for _, name := range []string{"one", "two", "three"} {
		gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: m.namespace}}
		if err := m.client.Delete(ctx, gone, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return err
		}
	}
	err := eventually(ctx, "everything goes", func(ctx context.Context) (bool, error) {
		var secrets corev1.SecretList
		var maps corev1.ConfigMapList
		err := first(
			m.client.List(ctx, &secrets, client.InNamespace(m.namespace)),
			m.client.List(ctx, &maps, client.InNamespace(m.namespace), client.MatchingLabels{"kept": "true"}),
		)
		return len(secrets.Items) == 0 && len(maps.Items) == 0, err
	})
	if err := first(err, m.told(ctx, "LetGo")); err != nil {
		return err
	}
	m.second.stop()
	return <-m.second.ended
}

// Runs for a lease until the context ends; tells when it leads.
func (m *managed) candidate(ctx context.Context, name string) (<-chan struct{}, error) {
	leads := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "dies", Namespace: m.namespace},
			Client:     m.kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: 2 * time.Second,
		RenewDeadline: time.Second,
		RetryPeriod:   200 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leads) },
			OnStoppedLeading: func() {},
		},
	})
	if err == nil {
		go elector.Run(ctx)
	}
	return leads, err
}

func (m *managed) expired(ctx context.Context) error {
	mortal, kill := context.WithCancel(ctx)
	defer kill()
	leads, err := m.candidate(mortal, "mortal")
	if err != nil {
		return err
	}
	<-leads
	follows, err := m.candidate(ctx, "heir")
	if err != nil {
		return err
	}
	kill()
	select {
	case <-follows:
	case <-ctx.Done():
		return ctx.Err()
	}
	found, err := m.kube.CoordinationV1().Leases(m.namespace).Get(ctx, "dies", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errors.New("the lease is gone")
	}
	return first(err, expect(err != nil || *found.Spec.HolderIdentity == "heir", "held by %v", found.Spec.HolderIdentity))
}
