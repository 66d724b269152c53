package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

type informed struct{ *bench }

// Informers: the caches that every controller in Go is built on. Run with
// KUBE_FEATURE_WatchListClient=true they stream their lists.
func informerChecks(b *bench) []check {
	i := informed{b}
	return []check{
		{"a shared informer sees add, update and delete", i.shared},
		{"a dynamic informer sees a member cluster come and go", i.dynamicOne},
		{"an informer of metadata sees no data", i.metadataOne},
		{"their lists came the way that was asked for", i.streamed},
	}
}

// Tells what handlers hear, by the name of the object.
func listen(informer cache.SharedInformer, name string) (<-chan string, error) {
	heard := make(chan string, 64)
	tell := func(what string, object any) {
		if gone, is := object.(cache.DeletedFinalStateUnknown); is {
			object = gone.Obj
		}
		if found, err := meta.Accessor(object); err == nil && found.GetName() == name {
			heard <- what
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("add", object) },
		UpdateFunc: func(_, object any) { tell("update", object) },
		DeleteFunc: func(object any) { tell("delete", object) },
	})
	return heard, err
}

func hears(ctx context.Context, heard <-chan string, want string) error {
	select {
	case what := <-heard:
		return expect(what == want, "heard %s instead of %s", what, want)
	case <-ctx.Done():
		return fmt.Errorf("never heard %s: %w", want, ctx.Err())
	}
}

func (i informed) shared(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(i.kube, 0, informers.WithNamespace(i.namespace))
	defer factory.Shutdown()
	defer cancel()
	services := factory.Core().V1().Services()
	heard, err := listen(services.Informer(), "web")
	if err != nil {
		return err
	}
	secrets := factory.Core().V1().Secrets()
	if _, err := listen(secrets.Informer(), "none"); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if err := expect(synced, "%v is not in sync", kind); err != nil {
			return err
		}
	}
	all := i.kube.CoreV1().Services(i.namespace)
	made := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"tier": "front"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if made, err = all.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := hears(ctx, heard, "add"); err != nil {
		return err
	}
	front := labels.SelectorFromSet(labels.Set{"tier": "front"})
	listed, err := services.Lister().Services(i.namespace).List(front)
	if err := first(err, expect(len(listed) == 1, "%d listed", len(listed))); err != nil {
		return err
	}
	// As objects of a list are read: with their kind left to the list.
	if err := expect(listed[0].ResourceVersion == made.ResourceVersion, "another revision"); err != nil {
		return err
	}
	made.Spec.Ports[0].Port = 81
	if _, err := all.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := hears(ctx, heard, "update"); err != nil {
		return err
	}
	if err := all.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return hears(ctx, heard, "delete")
}

var memberClusters = schema.GroupVersionResource{
	Group: "cluster.kubernetes-fleet.io", Version: "v1", Resource: "memberclusters",
}

func member(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{"identity": map[string]any{
			"kind": "ServiceAccount", "name": "agent", "namespace": "fleet-system", "apiGroup": "",
		}},
	}}
}

func (i informed) dynamicOne(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(i.dynamic, 0)
	defer factory.Shutdown()
	defer cancel()
	informer := factory.ForResource(memberClusters)
	heard, err := listen(informer.Informer(), "go-informed")
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	all := i.dynamic.Resource(memberClusters)
	made, err := all.Create(ctx, member("go-informed"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := hears(ctx, heard, "add"); err != nil {
		return err
	}
	made.SetLabels(map[string]string{"region": "eu"})
	if _, err := all.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := hears(ctx, heard, "update"); err != nil {
		return err
	}
	found, err := informer.Lister().Get("go-informed")
	if err != nil {
		return err
	}
	period, _, _ := unstructured.NestedInt64(found.(*unstructured.Unstructured).Object, "spec", "heartbeatPeriodSeconds")
	if err := expect(period == 60, "no default in the cache: %d", period); err != nil {
		return err
	}
	if err := all.Delete(ctx, "go-informed", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return hears(ctx, heard, "delete")
}

func (i informed) metadataOne(ctx context.Context) error {
	client, err := metadata.NewForConfig(i.config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	factory := metadatainformer.NewSharedInformerFactory(client, 0)
	defer factory.Shutdown()
	defer cancel()
	maps := corev1.SchemeGroupVersion.WithResource("configmaps")
	informer := factory.ForResource(maps)
	heard, err := listen(informer.Informer(), "partial")
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	made := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "partial", Labels: map[string]string{"a": "b"}},
		Data:       map[string]string{"large": "text"},
	}
	if _, err := i.kube.CoreV1().ConfigMaps(i.namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := hears(ctx, heard, "add"); err != nil {
		return err
	}
	found, err := informer.Lister().ByNamespace(i.namespace).Get("partial")
	if err != nil {
		return err
	}
	partial, is := found.(*metav1.PartialObjectMetadata)
	if err := expect(is && partial.Labels["a"] == "b", "got %v", found); err != nil {
		return err
	}
	patched, err := client.Resource(maps).Namespace(i.namespace).Patch(
		ctx, "partial", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"c"}}}`), metav1.PatchOptions{})
	return first(err, expect(err != nil || patched.Labels["a"] == "c", "got %v", patched), hears(ctx, heard, "update"))
}

func (i informed) streamed(context.Context) error {
	i.traffic.lock.Lock()
	defer i.traffic.lock.Unlock()
	streamed, listed := 0, 0
	for _, one := range i.traffic.seen {
		switch {
		case one.method != "GET" || !strings.HasSuffix(one.path, "/memberclusters"):
		case strings.Contains(one.query, "sendInitialEvents=true"):
			streamed++
		case !strings.Contains(one.query, "watch=true"):
			listed++
		}
	}
	if os.Getenv("KUBE_FEATURE_WatchListClient") == "true" {
		return expect(streamed > 0 && listed == 0, "%d streamed, %d listed", streamed, listed)
	}
	return expect(streamed == 0 && listed > 0, "%d streamed, %d listed", streamed, listed)
}
