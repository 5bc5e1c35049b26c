#pragma once
#include "coordinator/transport/expert_backend.h"
