package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
)

type watching struct {
	*bench
	revision string
}

// Watches as clients hold them: revisions, bookmarks, selectors, ends.
func watchingChecks(b *bench) []check {
	w := &watching{bench: b}
	return []check{
		{"a watch from a revision sees what came after it, in order", w.after},
		{"a protobuf client reads the same watch", w.protobuf},
		{"what stops matching is deleted, what begins to is added", w.selected},
		{"the present state ends with a bookmark", w.initial},
		{"a bookmark comes before the end, and the end in time", w.bookmark},
		{"a watcher that is cut off goes on where it was", w.retried},
		{"a condition is waited for", w.until},
	}
}

func (w *watching) change(ctx context.Context, name string) error {
	maps := w.kube.CoreV1().ConfigMaps(w.namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Data = map[string]string{"a": "b"}
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return maps.Delete(ctx, name, metav1.DeleteOptions{})
}

// The next events as words. Bookmarks are left out.
func next(ctx context.Context, events <-chan watch.Event, count int) (string, error) {
	var said []string
	for len(said) < count {
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("after %v: %w", said, ctx.Err())
		case event, open := <-events:
			if !open {
				return "", fmt.Errorf("the watch ended after %v", said)
			}
			switch object := event.Object.(type) {
			case *metav1.Status:
				return "", fmt.Errorf("the watch says %s", object.Message)
			case metav1.Object:
				if event.Type != watch.Bookmark {
					said = append(said, fmt.Sprintf("%s %s", event.Type, object.GetName()))
				}
			}
		}
	}
	return strings.Join(said, ", "), nil
}

func (w *watching) sees(ctx context.Context, kube kubernetes.Interface) error {
	seen, err := kube.CoreV1().ConfigMaps(w.namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: w.revision})
	if err != nil {
		return err
	}
	defer seen.Stop()
	said, err := next(ctx, seen.ResultChan(), 3)
	return first(err, expect(said == "ADDED one, MODIFIED one, DELETED one", "saw %s", said))
}

func (w *watching) after(ctx context.Context) error {
	// A real cluster puts one into every namespace, sooner or later.
	err := eventually(ctx, "the first config map", func(ctx context.Context) (bool, error) {
		list, err := w.kube.CoreV1().ConfigMaps(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		w.revision = list.ResourceVersion
		return len(list.Items) > 0, nil
	})
	if err != nil {
		return err
	}
	return first(w.change(ctx, "one"), w.sees(ctx, w.kube))
}

func (w *watching) protobuf(ctx context.Context) error {
	config := rest.CopyConfig(w.config)
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf + ",application/json"
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return w.sees(ctx, kube)
}

func (w *watching) selected(ctx context.Context) error {
	maps := w.kube.CoreV1().ConfigMaps(w.namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "two"}}
	for _, tier := range []string{"", "front", "front", "back"} {
		if tier != "" {
			made.Labels = map[string]string{"tier": tier}
			// The second front is a change of its own.
			made.Data = map[string]string{"at": made.ResourceVersion}
			made, err = maps.Update(ctx, made, metav1.UpdateOptions{})
		} else {
			made, err = maps.Create(ctx, made, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
	}
	options := metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "tier=front"}
	seen, err := maps.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer seen.Stop()
	said, err := next(ctx, seen.ResultChan(), 3)
	return first(err, expect(said == "ADDED two, MODIFIED two, DELETED two", "saw %s", said))
}

func (w *watching) initial(ctx context.Context) error {
	options := metav1.ListOptions{
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	seen, err := w.kube.CoreV1().ConfigMaps(w.namespace).Watch(ctx, options)
	if err != nil {
		return err
	}
	defer seen.Stop()
	added := 0
	for event := range seen.ResultChan() {
		object, is := event.Object.(metav1.Object)
		if !is {
			return fmt.Errorf("the watch says %v", event.Object)
		}
		if event.Type == watch.Bookmark {
			ends := object.GetAnnotations()[metav1.InitialEventsAnnotationKey]
			return first(
				expect(ends == "true", "annotations %v", object.GetAnnotations()),
				expect(added == 2, "%d before it", added),
			)
		}
		added++
	}
	return fmt.Errorf("the watch ended after %d", added)
}

func (w *watching) bookmark(ctx context.Context) error {
	list, err := w.kube.CoreV1().ConfigMaps(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	options := metav1.ListOptions{
		ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(int64(3)),
	}
	seen, err := w.kube.CoreV1().ConfigMaps(w.namespace).Watch(ctx, options)
	if err != nil {
		return err
	}
	defer seen.Stop()
	// Something happens elsewhere, so that there is news to mark.
	if err := w.change(ctx, "three"); err != nil {
		return err
	}
	bookmarks := 0
	for event := range seen.ResultChan() {
		if event.Type == watch.Bookmark {
			bookmarks++
		}
	}
	return first(ctx.Err(), expect(bookmarks > 0, "no bookmark"))
}

// Watches of one second each.
type brief struct{ cache.Watcher }

func (b brief) Watch(options metav1.ListOptions) (watch.Interface, error) {
	options.TimeoutSeconds = ptr.To(int64(1))
	return b.Watcher.Watch(options)
}

func (w *watching) retried(ctx context.Context) error {
	maps := w.kube.CoreV1().ConfigMaps(w.namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	client := cache.NewListWatchFromClient(
		w.kube.CoreV1().RESTClient(), "configmaps", w.namespace, fields.Everything())
	seen, err := watchtools.NewRetryWatcher(list.ResourceVersion, brief{client})
	if err != nil {
		return err
	}
	defer seen.Stop()
	for at, name := range []string{"four", "five", "six"} {
		if at > 0 {
			// Until the watch before was ended by the server.
			begun := w.watches()
			err := eventually(ctx, "another watch", func(context.Context) (bool, error) {
				return w.watches() > begun, nil
			})
			if err != nil {
				return err
			}
		}
		if err := w.change(ctx, name); err != nil {
			return err
		}
		said, err := next(ctx, seen.ResultChan(), 3)
		want := fmt.Sprintf("ADDED %s, MODIFIED %s, DELETED %s", name, name, name)
		if err := first(err, expect(said == want, "saw %s", said)); err != nil {
			return err
		}
	}
	return nil
}

// How often this path was asked with GET.
func (w *watching) watches() int {
	w.traffic.lock.Lock()
	defer w.traffic.lock.Unlock()
	count := 0
	for _, one := range w.traffic.seen {
		if one.method == "GET" && strings.HasSuffix(one.path, "/configmaps") {
			count++
		}
	}
	return count
}

func (w *watching) until(ctx context.Context) error {
	client := cache.NewListWatchFromClient(
		w.kube.CoreV1().RESTClient(), "configmaps", w.namespace, fields.OneTermEqualSelector("metadata.name", "awaited"))
	errs := make(chan error, 1)
	go func() {
		_, err := watchtools.UntilWithSync(ctx, client, &corev1.ConfigMap{}, nil, func(event watch.Event) (bool, error) {
			return event.Type == watch.Deleted, nil
		})
		errs <- err
	}()
	for {
		if err := w.change(ctx, "awaited"); err != nil {
			return err
		}
		select {
		case err := <-errs:
			return err
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
	}
}
