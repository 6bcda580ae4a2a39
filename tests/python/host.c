/* Starts two ranks of a Python script (CAPI_PROGRAM is the interpreter, PYTHON_CLIENT the script) on a PMIx server. */
#include "../capi/host.h"

static pmix_server_module_t module;

int main(void)
{
    host_start(&module);
    host_run("python", 2, 2, getenv("PYTHON_CLIENT"));
    host_stop();
    return finish();
}
