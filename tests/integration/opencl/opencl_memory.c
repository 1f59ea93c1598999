/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: reads, writes, copies, fills, rectangles, maps, images, migration, shared virtual memory.
 */
#include "conform.h"

static void fill_host(uint32_t *words, uint32_t seed)
{
	seed |= 1;
	for (int i = 0; i < WORDS; i++)
		words[i] = xorshift32(&seed);
}

static void read_write(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	uint32_t in[WORDS], early[WORDS], late[WORDS];
	cl_mem m = new_words(c, 1);
	cl_event e[2];

	fill_host(in, 77);
	enqueue_mix(c, q, m, 1, 0, NULL, NULL);
	OCL(clEnqueueReadBuffer(q, m, CL_FALSE, 0, BYTES, early, 0, NULL, &e[0]));
	OCL(clEnqueueWriteBuffer(q, m, CL_FALSE, 256, BYTES - 512, in, 0, NULL, &e[1]));
	enqueue_mix(c, q, m, 2, 0, NULL, NULL);
	OCL(clEnqueueReadBuffer(q, m, CL_TRUE, 0, BYTES, late, 0, NULL, NULL));
	note(c, "statuses %d %d", event_status(e[0]), event_status(e[1]));
	note_data(c, "early", early, BYTES);
	note_data(c, "late", late, BYTES);
	OCL(clEnqueueWriteBuffer(q, m, CL_TRUE, 0, 4, in, 2, e, NULL));
	memset(in, 0, 4); /* a blocking write has taken its data */
	OCL(clEnqueueReadBuffer(q, m, CL_TRUE, 4, 1021, late, 0, NULL, NULL));
	note_data(c, "odd size", late, 1021);
	note_buffer(c, "all", q, m);
	release_events(e, 2);
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

static void copies_and_fills(struct conform *c)
{
	static const size_t sizes[] = {1, 2, 4, 8, 16, 32, 64, 128};
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem a = new_words(c, 2), b = new_words(c, 3);
	unsigned char pattern[128];

	for (int i = 0; i < 128; i++)
		pattern[i] = (unsigned char)(i * 7 + 3);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		OCL(clEnqueueFillBuffer(q, a, pattern, sizes[i], 1024 * i, 512, 0, NULL, NULL));
		pattern[0]++; /* the call has copied it */
		enqueue_mix(c, q, a, (cl_uint)i, 0, NULL, NULL);
		OCL(clEnqueueCopyBuffer(q, a, b, 512 * i, 8192 - 512 * i, 2048, 0, NULL, NULL));
	}
	note(c, "overlap %d", clEnqueueCopyBuffer(q, a, a, 0, 16, 64, 0, NULL, NULL));
	OCL(clEnqueueCopyBuffer(q, a, a, 0, 8192, 4096, 0, NULL, NULL));
	note_buffer(c, "a", q, a);
	note_buffer(c, "b", q, b);
	OCL(clReleaseMemObject(a));
	OCL(clReleaseMemObject(b));
	OCL(clReleaseCommandQueue(q));
}

static void rectangles(struct conform *c)
{
	const size_t at[3] = {16, 3, 1}, to[3] = {32, 1, 0}, region[3] = {64, 5, 2};
	const size_t pitch = 128, slice = 1024;
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem a = new_words(c, 4), b = new_words(c, 5);
	uint32_t host[WORDS];
	cl_event e;

	fill_host(host, 99);
	OCL(clEnqueueWriteBufferRect(
		q, a, CL_FALSE, at, to, region, pitch, slice, pitch, slice, host, 0, NULL, NULL));
	enqueue_mix(c, q, a, 1, 0, NULL, NULL);
	OCL(clEnqueueCopyBufferRect(
		q, a, b, at, to, region, pitch, slice, pitch, slice, 0, NULL, &e));
	OCL(clEnqueueReadBufferRect(
		q, b, CL_TRUE, to, at, region, pitch, slice, pitch, slice, host, 1, &e, NULL));
	OCL(clReleaseEvent(e));
	note_data(c, "host", host, BYTES);
	note_buffer(c, "a", q, a);
	note_buffer(c, "b", q, b);
	OCL(clReleaseMemObject(a));
	OCL(clReleaseMemObject(b));
	OCL(clReleaseCommandQueue(q));
}

static uint32_t *map(cl_command_queue q, cl_mem m, cl_bool blocking, cl_map_flags flags, size_t at,
	size_t size, cl_event *e)
{
	uint32_t *p;

	OCL_NEW(p, clEnqueueMapBuffer(q, m, blocking, flags, at, size, 0, NULL, e, &rc_));
	return p;
}

static void maps(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem m = new_words(c, 6);
	uint32_t *p, *r;
	cl_event e;

	for (cl_uint i = 0; i < 8; i++) {
		enqueue_mix(c, q, m, i, 0, NULL, NULL);
		p = map(q, m, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, BYTES, NULL);
		note_data(c, "mapped", p, BYTES);
		p[i] += i;
		OCL(clEnqueueUnmapMemObject(q, m, p, 0, NULL, NULL));
	}
	enqueue_mix(c, q, m, 100, 0, NULL, NULL);
	p = map(q, m, CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, 0, 1024, &e);
	r = map(q, m, CL_FALSE, CL_MAP_READ, 4096, 1024, NULL);
	OCL(clFinish(q));
	note(c, "map's event %d", event_status(e));
	OCL(clReleaseEvent(e));
	note_data(c, "second region", r, 1024);
	memset(p, 0x5a, 1024);
	OCL(clEnqueueUnmapMemObject(q, m, r, 0, NULL, NULL));
	OCL(clEnqueueUnmapMemObject(q, m, p, 0, NULL, &e));
	enqueue_mix(c, q, m, 101, 1, &e, NULL);
	OCL(clReleaseEvent(e));
	note_buffer(c, "all", q, m);
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

static void host_pointer(struct conform *c)
{
	static uint32_t host[WORDS] __attribute__((aligned(4096)));
	cl_command_queue q = ocl_queue(&c->o, 0);
	uint32_t *p;
	cl_mem m;

	fill_host(host, 123);
	OCL_NEW(m, clCreateBuffer(c->o.ctx, CL_MEM_USE_HOST_PTR, BYTES, host, &rc_));
	for (cl_uint i = 0; i < 10; i++)
		enqueue_mix(c, q, m, i, 0, NULL, NULL);
	p = map(q, m, CL_TRUE, CL_MAP_READ, 0, BYTES, NULL);
	note(c, "maps to the host's memory: %d", p == host);
	note_data(c, "host", host, BYTES);
	OCL(clEnqueueUnmapMemObject(q, m, p, 0, NULL, NULL));
	OCL(clFinish(q));
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

static void sub_buffers(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_buffer_region region = {4096, 4096};
	cl_mem m = new_words(c, 7), sub;
	size_t global = 1024;
	cl_uint number = 9;

	OCL_NEW(sub, clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &rc_));
	enqueue_mix(c, q, m, 1, 0, NULL, NULL);
	OCL(clSetKernelArg(c->mix, 0, sizeof(sub), &sub));
	OCL(clSetKernelArg(c->mix, 1, sizeof(number), &number));
	OCL(clEnqueueNDRangeKernel(q, c->mix, 1, NULL, &global, NULL, 0, NULL, NULL));
	OCL(clReleaseMemObject(sub)); /* still in use by the queue */
	note_buffer(c, "all", q, m);
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

static cl_mem new_image(struct conform *c, size_t w, size_t h)
{
	cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
	cl_image_desc desc = {
		.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = w, .image_height = h};
	cl_mem m;

	OCL_NEW(m, clCreateImage(c->o.ctx, CL_MEM_READ_WRITE, &format, &desc, NULL, &rc_));
	return m;
}

static void image_commands(
	struct conform *c, cl_command_queue q, cl_mem a, cl_mem b, uint32_t *host)
{
	const size_t zero[3] = {0, 0, 0}, all[3] = {64, 64, 1};
	const size_t at[3] = {8, 4, 0}, part[3] = {16, 24, 1};
	const cl_uint color[4] = {1, 2, 3, 250};
	cl_mem flat = new_words(c, 8);
	size_t pitch = 0;
	uint32_t *p;

	OCL(clEnqueueWriteImage(q, a, CL_FALSE, zero, all, 0, 0, host, 0, NULL, NULL));
	OCL(clEnqueueFillImage(q, b, color, zero, all, 0, NULL, NULL));
	OCL(clEnqueueCopyImage(q, a, b, zero, at, part, 0, NULL, NULL));
	OCL(clEnqueueCopyImageToBuffer(q, b, flat, zero, part, 512, 0, NULL, NULL));
	enqueue_mix(c, q, flat, 3, 0, NULL, NULL);
	OCL(clEnqueueCopyBufferToImage(q, flat, b, 1024, at, part, 0, NULL, NULL));
	OCL_NEW(p, clEnqueueMapImage(q, b, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, zero, all, &pitch,
			   NULL, 0, NULL, NULL, &rc_));
	for (size_t y = 0; y < 64; y++)
		p[y * pitch / 4 + y] ^= 0x01010101;
	OCL(clEnqueueUnmapMemObject(q, b, p, 0, NULL, NULL));
	OCL(clEnqueueReadImage(q, b, CL_TRUE, zero, all, 0, 0, host, 0, NULL, NULL));
	note_data(c, "b", host, 64 * 64 * 4);
	note_buffer(c, "flat", q, flat);
	OCL(clReleaseMemObject(flat));
}

static void images(struct conform *c)
{
	cl_command_queue q;
	cl_bool supported;
	uint32_t host[WORDS];
	cl_mem a, b;

	OCL(clGetDeviceInfo(
		c->o.dev, CL_DEVICE_IMAGE_SUPPORT, sizeof(supported), &supported, NULL));
	note(c, "supported %d", supported);
	if (!supported)
		return;
	q = ocl_queue(&c->o, 0);
	fill_host(host, 321);
	a = new_image(c, 64, 64);
	b = new_image(c, 64, 64);
	image_commands(c, q, a, b, host);
	OCL(clReleaseMemObject(a));
	OCL(clReleaseMemObject(b));
	OCL(clReleaseCommandQueue(q));
}

static void migration(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem m[2] = {new_words(c, 9), new_words(c, 10)};
	cl_event e;

	enqueue_mix(c, q, m[0], 1, 0, NULL, NULL);
	OCL(clEnqueueMigrateMemObjects(q, 2, m, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, &e));
	enqueue_mix(c, q, m[0], 2, 1, &e, NULL);
	OCL(clEnqueueMigrateMemObjects(q, 1, m, 0, 0, NULL, NULL));
	OCL(clReleaseEvent(e));
	note_buffer(c, "m0", q, m[0]);
	note_buffer(c, "m1", q, m[1]);
	OCL(clReleaseMemObject(m[0]));
	OCL(clReleaseMemObject(m[1]));
	OCL(clReleaseCommandQueue(q));
}

static void CL_CALLBACK on_free(cl_command_queue q, cl_uint n, void *pointers[], void *arg)
{
	struct conform *c = arg;

	for (cl_uint i = 0; i < n; i++)
		clSVMFree(c->o.ctx, pointers[i]);
}

static void svm_commands(struct conform *c, cl_command_queue q, uint32_t *a, uint32_t *b)
{
	size_t global = WORDS, local = 64;
	cl_uint number = 5, pattern = 0xdeadbeef;
	const void *both[2] = {a, b};
	cl_event e;

	OCL(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_WRITE, a, BYTES, 0, NULL, NULL));
	fill_host(a, 555);
	OCL(clEnqueueSVMUnmap(q, a, 0, NULL, NULL));
	OCL(clSetKernelArgSVMPointer(c->mix, 0, a));
	OCL(clSetKernelArg(c->mix, 1, sizeof(number), &number));
	for (int i = 0; i < 5; i++)
		OCL(clEnqueueNDRangeKernel(q, c->mix, 1, NULL, &global, &local, 0, NULL, NULL));
	OCL(clEnqueueSVMMemcpy(q, CL_FALSE, b, a, BYTES, 0, NULL, &e));
	OCL(clEnqueueSVMMemFill(q, b, &pattern, sizeof(pattern), 512, 1, &e, NULL));
	OCL(clReleaseEvent(e));
	OCL(clEnqueueSVMMigrateMem(q, 2, both, NULL, 0, 0, NULL, NULL));
	OCL(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, b, BYTES, 0, NULL, NULL));
	note_data(c, "b", b, BYTES);
	OCL(clEnqueueSVMUnmap(q, b, 0, NULL, NULL));
}

static void shared_virtual_memory(struct conform *c)
{
	cl_device_svm_capabilities can = 0;
	cl_command_queue q;
	void *p[2];

	clGetDeviceInfo(c->o.dev, CL_DEVICE_SVM_CAPABILITIES, sizeof(can), &can, NULL);
	note(c, "supported %d", !!(can & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER));
	if (!(can & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER))
		return;
	q = ocl_queue(&c->o, 0);
	for (int i = 0; i < 2; i++) {
		p[i] = clSVMAlloc(c->o.ctx, CL_MEM_READ_WRITE, BYTES, 0);
		if (!p[i])
			die("clSVMAlloc failed");
	}
	svm_commands(c, q, p[0], p[1]);
	OCL(clEnqueueSVMFree(q, 2, p, on_free, c, 0, NULL, NULL));
	OCL(clFinish(q));
	OCL(clReleaseCommandQueue(q));
}

static void CL_CALLBACK native_main(void *arg)
{
	struct {
		uint32_t *data;
		uint32_t n;
	} *a = arg;

	for (uint32_t i = 0; i < a->n; i++)
		a->data[i] = a->data[i] * 3 + i;
}

static void native_kernel(struct conform *c)
{
	struct {
		cl_mem data;
		uint32_t n;
	} args = {.n = WORDS};
	const void *where = &args.data;
	cl_device_exec_capabilities can;
	cl_command_queue q;

	OCL(clGetDeviceInfo(c->o.dev, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof(can), &can, NULL));
	note(c, "supported %d", !!(can & CL_EXEC_NATIVE_KERNEL));
	if (!(can & CL_EXEC_NATIVE_KERNEL))
		return;
	q = ocl_queue(&c->o, 0);
	args.data = new_words(c, 12);
	enqueue_mix(c, q, args.data, 1, 0, NULL, NULL);
	OCL(clEnqueueNativeKernel(
		q, native_main, &args, sizeof(args), 1, &args.data, &where, 0, NULL, NULL));
	enqueue_mix(c, q, args.data, 2, 0, NULL, NULL);
	note_buffer(c, "data", q, args.data);
	OCL(clReleaseMemObject(args.data));
	OCL(clReleaseCommandQueue(q));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"read and write", read_write},
		{"copies and fills", copies_and_fills},
		{"rectangles", rectangles},
		{"maps", maps},
		{"host pointer", host_pointer},
		{"sub-buffers", sub_buffers},
		{"images", images},
		{"migration", migration},
		{"shared virtual memory", shared_virtual_memory},
		{"native kernel", native_kernel},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
